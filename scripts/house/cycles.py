"""Import cycles at module level: python cycles.py CHECKOUT"""
import ast, sys
from pathlib import Path
PKG = Path(sys.argv[1])/"src"/"anabranch"
mods = {"anabranch."+".".join(p.relative_to(PKG).with_suffix("").parts): p for p in PKG.rglob("*.py") if p.name!="__init__.py"}
g={}
for m,p in mods.items():
    deps=set()
    def visit(body):
        for n in body:
            if isinstance(n, ast.ImportFrom) and n.module:
                if n.module in mods: deps.add(n.module)
                for a in n.names:
                    if f"{n.module}.{a.name}" in mods: deps.add(f"{n.module}.{a.name}")
            elif isinstance(n,(ast.If,ast.Try)) and not (isinstance(n,ast.If) and isinstance(n.test,ast.Name) and n.test.id=="TYPE_CHECKING"): visit(n.body)
    visit(ast.parse(p.read_text()).body)
    g[m]=deps-{m}
# Tarjan
idx={};low={};st=[];on=set();out=[];c=[0]
sys.setrecursionlimit(10000)
def sc(v):
    idx[v]=low[v]=c[0];c[0]+=1;st.append(v);on.add(v)
    for w in g[v]:
        if w not in idx: sc(w);low[v]=min(low[v],low[w])
        elif w in on: low[v]=min(low[v],idx[w])
    if low[v]==idx[v]:
        s=[]
        while True:
            w=st.pop();on.discard(w);s.append(w)
            if w==v:break
        if len(s)>1: out.append(s)
for v in g:
    if v not in idx: sc(v)
for s in out:
    print("CYCLE", *[x.removeprefix("anabranch.") for x in s])
    for x in s: print("   ", x.removeprefix("anabranch."), "->", *[y.removeprefix("anabranch.") for y in g[x] if y in s])
