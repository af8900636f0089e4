"""Renames identifiers: python rename.py CHECKOUT renames.txt"""
import io, re, sys, tokenize
from pathlib import Path
root = Path(sys.argv[1]).resolve()
rules = []
for line in open(sys.argv[2]):
    line = line.split("#")[0].split()
    if not line: continue
    opts = dict(o.split("=") for o in line[2:])
    rules.append((line[0], line[1], opts.get("only", "").split(",") if "only" in opts else [], opts.get("not", "").split(",") if "not" in opts else []))
files = [p for f in ("src", "tests", "benchmarks", "scripts") for p in (root / f).rglob("*.py")]
texts = {p: p.read_text() for p in files}
allnames = {p: {t.string for t in tokenize.generate_tokens(io.StringIO(s).readline) if t.type == tokenize.NAME} for p, s in texts.items()}
for p, s in texts.items():
    rel = str(p.relative_to(root))
    mapping = {o: n for o, n, only, no in rules if (not only or any(rel.startswith(x) for x in only)) and not any(rel.startswith(x) for x in no)}
    hit = {o: n for o, n in mapping.items() if o in allnames[p]}
    for o, n in hit.items():
        if n in allnames[p]: print(f"{rel}: {o} -> {n}: the new name is there already")
    lines = s.splitlines(keepends=True)
    changed = False
    for t in reversed(list(tokenize.generate_tokens(io.StringIO(s).readline))):
        if t.type == tokenize.NAME and t.string in hit:
            (r, c), (_, e) = t.start, t.end
            lines[r - 1] = lines[r - 1][:c] + hit[t.string] + lines[r - 1][e:]; changed = True
        elif t.type in (tokenize.STRING, tokenize.COMMENT) and "`" in t.string and t.start[0] == t.end[0] or (t.type == tokenize.STRING and t.string.startswith('"""')):
            new = re.sub(r"`[A-Za-z_.]+(?:\([^`]*\))?`", lambda m: re.sub(r"[A-Za-z_]+", lambda w: mapping.get(w[0], w[0]), m[0]), t.string)
            if new != t.string:
                block = "".join(lines[t.start[0] - 1 : t.end[0]])
                block = block.replace(t.string, new, 1)
                lines[t.start[0] - 1 : t.end[0]] = block.splitlines(keepends=True); changed = True
    if changed: p.write_text("".join(lines))
for p in [*(root / "docs").rglob("*.md"), *root.glob("*.md")]:
    s = p.read_text()
    mapping = {o: n for o, n, only, no in rules if not only}
    new = re.sub(r"`[^`\n]+`", lambda m: re.sub(r"\b[A-Za-z_]+\b", lambda w: mapping[w[0]] if w[0] in mapping and (w[0][0].isupper() and w[0] not in ("Head","Race","Question","Family","Opening") or "_" in w[0]) else w[0], m[0]), s)
    if new != s: p.write_text(new)
