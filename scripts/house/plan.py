"""Cycles that a layout would make, without moving: python plan.py CHECKOUT layout.txt"""
import ast, sys
from pathlib import Path
root=Path(sys.argv[1]); PKG=root/"src"/"anabranch"
new={}
for line in open(sys.argv[2]):
    line=line.strip()
    if not line or line[0]=="#": continue
    l,r=line.split(" <- "); 
    for o in r.partition(" | ")[0].split(): new[o]=l
mods={"anabranch."+".".join(p.relative_to(PKG).with_suffix("").parts):p for p in PKG.rglob("*.py") if p.name!="__init__.py"}
key=lambda m: m.removeprefix("anabranch.").replace(".","/")
g={};why={}
for m,p in mods.items():
    a=new.get(key(m),key(m)); g.setdefault(a,set())
    def visit(body):
        for n in body:
            if isinstance(n,ast.ImportFrom) and n.module:
                ds=[n.module]*(n.module in mods)+[f"{n.module}.{x.name}" for x in n.names if f"{n.module}.{x.name}" in mods]
                for d in ds:
                    b=new.get(key(d),key(d))
                    if b!=a: g[a].add(b); why.setdefault((a,b),set()).add((key(m),key(d)))
            elif isinstance(n,(ast.If,ast.Try)) and not(isinstance(n,ast.If) and isinstance(n.test,ast.Name) and n.test.id=="TYPE_CHECKING"): visit(n.body)
    visit(ast.parse(p.read_text()).body)
for v in list(g):
    for w in g[v]: assert True
idx={};low={};st=[];on=set();out=[];c=[0];sys.setrecursionlimit(10000)
def sc(v):
    idx[v]=low[v]=c[0];c[0]+=1;st.append(v);on.add(v)
    for w in g.get(v,()):
        if w not in idx: sc(w);low[v]=min(low[v],low[w])
        elif w in on: low[v]=min(low[v],idx[w])
    if low[v]==idx[v]:
        s=[]
        while True:
            w=st.pop();on.discard(w);s.append(w)
            if w==v:break
        if len(s)>1: out.append(s)
for v in list(g):
    if v not in idx: sc(v)
for s in out:
    print("CYCLE",*s)
    for a in s:
        for b in g[a]:
            if b in s: print("   ",a,"->",b,"   by",", ".join(f"{x.split('/')[-1]}->{y.split('/')[-1]}" for x,y in sorted(why[a,b])))
from collections import Counter
folders=Counter(str(Path(k).parent) for k in g)
print(len(g),"modules; over 15:",{f:n for f,n in folders.items() if n>15})
base=Counter(Path(k).name for k in g); print("twice:",[b for b,n in base.items() if n>1])
size=Counter()
for m,p in mods.items(): size[new.get(key(m),key(m))]+=len(p.read_text().splitlines())
print("long:",{k:n for k,n in size.items() if n>400})
