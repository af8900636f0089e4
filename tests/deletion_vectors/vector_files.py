"""Files of deletion vectors, as tests want them."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from unittest.mock import patch

from pyroaring import BitMap64

from anabranch.deletion_vectors import vector_descriptors


def encode_file(vectors: Sequence[BitMap64], *, file_id: uuid.UUID, prefix: str = "") -> vector_descriptors.VectorFile:
    """All vectors in one file, however large it gets."""
    with patch.object(vector_descriptors, "FILE_BYTES_TARGET", sys.maxsize):
        [written] = vector_descriptors.encode_files(vectors, file_ids=iter([file_id]), prefixes=iter([prefix]))
    return written
