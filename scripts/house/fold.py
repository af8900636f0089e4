"""Folds changes/*.md into CHANGELOG.md: python fold.py CHECKOUT"""
import re, sys, textwrap
from pathlib import Path
root = Path(sys.argv[1])
page = root / "CHANGELOG.md"
text = page.read_text()
head, _, tail = text.partition("\nVACUUM, RESTORE, SHALLOW CLONE, CONVERT")
if not tail: head, _, tail = text.partition("\nNot in this version")
NAMES = {"sql": "SQL", "cdf": "Change data feed"}
bullets = []
for f in sorted((root / "changes").glob("*.md")):
    if f.name == "README.md": continue
    words = " ".join(f.read_text().split()).replace("](../docs/", "](docs/").replace("](../", "](")
    title = f.stem.replace("-", " ")
    title = title[0].upper() + title[1:]
    bullets.append("\n".join(textwrap.wrap(f"- **{title}**: {words}", 148, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)))
    f.unlink()
page.write_text(head.rstrip() + "\n" + "\n".join(bullets) + "\n\nNot in this version: deep clones, UPDATE and MERGE of tables with row tracking, optimized writes, auto compaction.\n")
