"""Moves and merges modules by a table: python house.py CHECKOUT layout.txt

Can be run again: lines whose old modules are gone are left out.
"""
from __future__ import annotations
import ast, re, subprocess, sys, textwrap
from pathlib import Path

root = Path(sys.argv[1]).resolve()
SRC = root / "src"
PKG = SRC / "anabranch"

def path_of(mod: str) -> Path: return PKG / f"{mod}.py"
def dotted(mod: str) -> str: return "anabranch." + mod.replace("/", ".")

table: dict[str, tuple[list[str], str | None]] = {}
for line in Path(sys.argv[2]).read_text().splitlines():
    line = line.strip()
    if not line or line.startswith("#"): continue
    left, right = line.split(" <- ")
    right, _, doc = right.partition(" | ")
    olds = [o for o in right.split() if path_of(o).exists()]
    if not olds:
        print("nothing left of", line); continue
    if olds == [left]: continue
    table[left] = (olds, doc.strip() or None)

new_of: dict[str, str] = {}           # dotted old -> dotted new
for new, (olds, _) in table.items():
    for o in olds:
        assert dotted(o) not in new_of, o
        new_of[dotted(o)] = dotted(new)
all_old = {"anabranch." + ".".join(p.relative_to(PKG).with_suffix("").parts) for p in PKG.rglob("*.py")}

def is_module(name: str) -> bool: return name in all_old

def rewrite(text: str, me: str | None) -> str:
    """Imports and uses of moved modules in `text`; `me` is the dotted new module that the text will be part of."""
    tree = ast.parse(text)
    edits: list[tuple[int, int, int, int, str]] = []
    renamed_modules: dict[str, str] = {}   # local name -> replacement ("" for own module)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("anabranch"):
            by: dict[str, list[str]] = {}
            changed = False
            for a in node.names:
                full = f"{node.module}.{a.name}"
                if is_module(full) and full in new_of and not (PKG / Path(*full.split(".")[1:])).is_dir():
                    target = new_of[full]
                    pkg, _, base = target.rpartition(".")
                    changed = True
                    local = a.asname or a.name
                    if target == me:
                        renamed_modules[local] = ""
                        continue
                    if a.asname:
                        by.setdefault(pkg, []).append(f"{base} as {a.asname}")
                    else:
                        by.setdefault(pkg, []).append(base)
                        if base != a.name: renamed_modules[local] = base
                else:
                    target = new_of.get(node.module, node.module)
                    if target != node.module: changed = True
                    if target == me:
                        changed = True
                        if a.asname and a.asname != a.name:
                            renamed_modules[a.asname] = "=" + a.name
                        continue
                    by.setdefault(target, []).append(a.name + (f" as {a.asname}" if a.asname else ""))
            if changed:
                indent = " " * node.col_offset
                lines = []
                for mod, names in by.items():
                    lines.append(f"from {mod} import ({', '.join(dict.fromkeys(names))})" if len(names) > 1 else f"from {mod} import {names[0]}")
                new = ("\n" + indent).join(lines)
                if not lines: new = "pass  # HOUSE" if node.col_offset else ""
                edits.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, new))
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.name in new_of: print("plain import", a.name)
    if renamed_modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in renamed_modules:
                rep = renamed_modules[node.value.id]
                v = node.value
                if rep == "":
                    edits.append((v.lineno, v.col_offset, v.end_lineno, v.end_col_offset + 1, ""))
                elif rep.startswith("="): pass
                else:
                    edits.append((v.lineno, v.col_offset, v.end_lineno, v.end_col_offset, rep))
        attr = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in renamed_modules and id(node) not in attr:
                rep = renamed_modules[node.id]
                if rep == "": print("module used as a value", node.id, me)
                else: edits.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, rep.lstrip("=")))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and renamed_modules.get(node.value.id, "").startswith("="):
                v = node.value
                edits.append((v.lineno, v.col_offset, v.end_lineno, v.end_col_offset, renamed_modules[v.id][1:]))
    lines = text.splitlines(keepends=True)
    enc = [l.encode() for l in lines]
    for l1, c1, l2, c2, new in sorted(set(edits), reverse=True):
        head, tail = enc[l1 - 1][:c1], enc[l2 - 1][c2:]
        enc[l1 - 1 : l2] = [head + new.encode() + tail]
    return b"".join(enc).decode()

STRING = sorted(new_of, key=len, reverse=True)
dotted_re = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, STRING)) + r")(?!\w)") if STRING else None
paths = {o.replace(".", "/").removeprefix("anabranch/") + ".py": n.replace(".", "/").removeprefix("anabranch/") + ".py" for o, n in new_of.items()}
path_re = re.compile(r"(?<![\w/-])((?:src/)?(?:anabranch/)?)(" + "|".join(map(re.escape, sorted(paths, key=len, reverse=True))) + r")(?!\w)")

def strings(text: str) -> str:
    text = dotted_re.sub(lambda m: new_of[m[1]], text)
    return path_re.sub(lambda m: m[1] + paths[m[2]], text)

def strings_py(text: str) -> str:
    """Only what is no import: these were rewritten."""
    out = []
    for line in text.splitlines(keepends=True):
        out.append(line if re.match(r"\s*(from|import) ", line) else strings(line))
    return "".join(out)

def split(text: str):
    """Docstring, imports, TYPE_CHECKING imports, rest."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    doc = ast.get_docstring(tree, clean=True)
    drop: set[int] = set()
    imports, checking = [], []
    body = tree.body
    if doc is not None:
        drop.update(range(body[0].lineno - 1, body[0].end_lineno)); body = body[1:]
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append("".join(lines[node.lineno - 1 : node.end_lineno]).strip()); drop.update(range(node.lineno - 1, node.end_lineno))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            checking += [textwrap.dedent(ast.get_source_segment(text, n)) for n in node.body]; drop.update(range(node.lineno - 1, node.end_lineno))
    rest = "".join(l for i, l in enumerate(lines) if i not in drop)
    return doc, imports, checking, rest.strip("\n") + "\n"

def names_of(text: str) -> dict[str, str]:
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)): found[node.name] = "def"
        elif isinstance(node, ast.Assign):
            for t in node.targets:
                for n in ast.walk(t):
                    if isinstance(n, ast.Name): found[n.id] = "def"
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name): found[node.target.id] = "def"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for a in node.names: found[a.asname or a.name.split(".")[0]] = f"import {getattr(node,'module','')}.{a.name}"
    return found

def order(olds: list[str]) -> list[str]:
    """Below first, by what they import of each other."""
    deps = {o: set() for o in olds}
    for o in olds:
        for node in ast.walk(ast.parse(path_of(o).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for other in olds:
                    if other != o and (node.module == dotted(other) or any(f"{node.module}.{a.name}" == dotted(other) for a in node.names)): deps[o].add(other)
    out: list[str] = []
    while len(out) < len(olds):
        free = [o for o in olds if o not in out and deps[o] <= set(out)]
        if not free: print("cycle", olds); free = [o for o in olds if o not in out]
        out.append(free[0])
    return out

def twin(text: str, name: str) -> str | None:
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name or isinstance(node, ast.Assign) and [getattr(t, "id", None) for t in node.targets] == [name]:
            return ast.dump(node)
    return None

def without_twins(text: str, twins: dict[str, str]) -> str:
    """Definitions that an earlier part has word for word are left out."""
    lines = text.splitlines(keepends=True)
    drop = set()
    for node in ast.parse(text).body:
        names = [node.name] if isinstance(node, ast.FunctionDef) else [getattr(t, "id", None) for t in node.targets] if isinstance(node, ast.Assign) else []
        if len(names) == 1 and names[0] and names[0] != "logger":
            if twins.get(names[0]) == ast.dump(node): drop.update(range(node.lineno - 1, node.end_lineno))
            else: twins.setdefault(names[0], ast.dump(node))
    return "".join(l for i, l in enumerate(lines) if i not in drop)

def merged(new: str, olds: list[str], doc: str | None) -> str:
    me = dotted(new)
    bound: dict[str, tuple[str, str]] = {}
    parts = []
    twins: dict[str, str] = {}
    main_doc = None
    imports: list[str] = []; checking: list[str] = []
    for o in order(olds):
        text = rewrite(path_of(o).read_text(), me)
        for name, what in names_of(text).items():
            if name in ("logger",): continue
            if name in bound and (bound[name][1] != what or what == "def") and not (name in twins and twin(text, name) == twins[name]):
                print(f"clash in {new}: {name}: {bound[name]} and {(o, what)}")
            bound[name] = (o, what)
        d, im, ch, rest = split(without_twins(text, twins))
        imports += im; checking += ch
        if o == olds[0]: main_doc = doc or d
        if o != olds[0] or doc:
            words = (d or "").strip()
            wrapped = [w for l in words.splitlines() for w in (textwrap.wrap(l, 117) or [""])]
            comment = "\n".join(("# " + l).rstrip() for l in wrapped) if words else ""
        else: comment = ""
        if o == olds[0] and doc and "\n" not in (d or ""): pass
        parts.append((comment + "\n\n\n" if comment else "") + rest)
    body = "\n\n".join(parts)
    if body.count("logger = logging.getLogger(") > 1:
        first = True; out = []
        for l in body.splitlines(keepends=True):
            if l.startswith("logger = logging.getLogger("):
                if not first: continue
                first = False
            out.append(l)
        body = "".join(out)
    imports = list(dict.fromkeys(i for i in imports if i.strip() and i != "from __future__ import annotations"))
    head = f'"""{main_doc}"""\n\nfrom __future__ import annotations\n\n' if "\n" not in (main_doc or "") else f'"""{main_doc}\n"""\n\nfrom __future__ import annotations\n\n'
    tail = ""
    if checking: tail = "\nif TYPE_CHECKING:\n" + textwrap.indent("\n".join(dict.fromkeys(checking)), "    ") + "\n"
    return head + "\n".join(imports) + "\n" + tail + "\n" + body

def main() -> None:
    results: dict[str, str] = {}
    gone: set[Path] = set()
    for new, (olds, doc) in table.items():
        if len(olds) == 1 and doc is None:
            results[new] = rewrite(path_of(olds[0]).read_text(), dotted(new))
        else:
            results[new] = merged(new, olds, doc)
        gone.update(path_of(o) for o in olds)
    everything = [p for folder in ("src", "tests", "benchmarks", "scripts") for p in (root / folder).rglob("*.py")]
    for p in everything:
        if p in gone: continue
        text = p.read_text()
        new = strings_py(rewrite(text, None)) if "anabranch" in text else text
        if new != text: p.write_text(new)
    for new, (olds, _) in table.items():
        target = path_of(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in [target.parent, *target.parent.parents]:
            if folder == PKG: break
            if not (folder / "__init__.py").exists():
                (folder / "__init__.py").write_text("")
        if path_of(olds[0]) != target:
            subprocess.run(["git", "mv", "-f", str(path_of(olds[0])), str(target)], cwd=root, check=True)
    for new, text in results.items(): path_of(new).write_text(strings_py(text))
    for p in gone:
        if p.exists() and p not in {path_of(n) for n in results}: subprocess.run(["git", "rm", "-qf", str(p)], cwd=root, check=True)
    for p in [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *root.glob("*.toml"), root / "Makefile", *(root / "benchmarks").glob("*.md"), *(root / "changes").glob("*.md"),
              *(root / "scripts").glob("*.sh"), *PKG.rglob("*.java")]:
        text = p.read_text(); new = strings(text)
        if new != text: p.write_text(new)

main()
