"""The shape of the code: how much a module imports, no class spread over files, no property that changes anything."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
#: A module imports at most this many other modules of Penstock.
FAN_OUT = 19
#: Modules that import more, and how many. Numbers only go down; a module that has come down is to be removed here.
LARGER: dict[str, int] = {}
#: Classes that still rely on what their only subclass defines. One that no longer does is to be removed here.
SPREAD = {"penstock.store.generating.Generating"}


def name_of(path: Path) -> str:
    return ".".join(("penstock", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


@cache
def modules() -> dict[str, ast.Module]:
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def imported(module: str) -> dict[str, str]:
    """What a module imports of Penstock: by the name that it has there, the module, or the module and the name."""
    names: dict[str, str] = {}
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "penstock":
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name: alias.name for alias in node.names if alias.name.split(".")[0] == "penstock"}
    return names


def fan_out(module: str) -> int:
    """How many other modules a module imports, in functions and for types too."""
    known = modules()
    return len({full if full in known else full.rpartition(".")[0] for full in imported(module).values()} - {module})


def test_no_module_imports_too_many_others():
    counts = {module: fan_out(module) for module in modules() if module != "penstock"}  # it only names what is public
    too_many = {module: count for module, count in counts.items() if count > LARGER.get(module, FAN_OUT)}
    assert not too_many, f"split these modules, or let them import less: {too_many}"


def test_the_list_of_modules_that_import_too_many_shrinks():
    stale = [module for module in LARGER if module not in modules() or fan_out(module) <= FAN_OUT]
    assert not stale, f"these import few enough now: remove them from LARGER: {stale}"


@dataclass
class Class:
    """A class of the source: what it defines, what it declares without a value, and what it uses of `self`."""

    name: str
    module: str
    bases: list[str]
    defined: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)  # annotated only, or abstract
    used: set[str] = field(default_factory=set)

    @property
    def is_interface(self) -> bool:
        return any(base.rpartition(".")[2] in ("Protocol", "TypedDict", "NamedTuple") for base in self.bases)


def class_of(node: ast.ClassDef, module: str) -> Class:
    known = imported(module)
    bases = [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
    found = Class(f"{module}.{node.name}", module, [known.get(base, f"{module}.{base}") for base in bases])
    is_data = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            abstract = any(ast.unparse(decorator).endswith("abstractmethod") for decorator in part.decorator_list)
            last = part.body[-1]
            abstract = abstract or (isinstance(last, ast.Raise) and "NotImplementedError" in ast.unparse(last))
            (found.declared if abstract else found.defined).add(part.name)
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            (found.defined if is_data or part.value is not None else found.declared).add(part.target.id)
        elif isinstance(part, ast.Assign):
            found.defined |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            (found.used if isinstance(part.ctx, ast.Load) else found.defined).add(part.attr)
    return found


@cache
def classes() -> dict[str, Class]:
    nodes = [
        (node, module) for module, tree in modules().items() for node in tree.body if isinstance(node, ast.ClassDef)
    ]
    return {found.name: found for found in (class_of(node, module) for node, module in nodes)}


def inherited(found: Class) -> set[str] | None:
    """What a class and its bases define; None if one of them is a class of somebody else's."""
    names = set(found.defined)
    for base in found.bases:
        if base.rpartition(".")[2] in ("ABC", "Generic", "object"):
            continue
        above = inherited(classes()[base]) if base in classes() else None
        if above is None:
            return None
        names |= above
    return names


def spread_classes() -> dict[str, set[str]]:
    """Classes that use what only their one subclass defines, in another file: they are halves of one class."""
    below: dict[str, list[Class]] = {}
    for one in classes().values():
        for base in one.bases:
            below.setdefault(base, []).append(one)
    halves = {}
    for name, one in classes().items():
        known, subclasses = inherited(one), below.get(name, [])
        if known is None or one.is_interface or len(subclasses) != 1 or subclasses[0].module == one.module:
            continue
        if missing := one.used - known & one.used - {"__class__", "__dict__"}:
            halves[name] = missing
    return halves


def test_no_class_is_spread_over_files_by_inheritance():
    halves = {name: sorted(missing) for name, missing in spread_classes().items() if name not in SPREAD}
    assert not halves, f"these use what only their subclass defines; let one own the other: {halves}"


def test_the_list_of_spread_classes_shrinks():
    assert spread_classes().keys() >= SPREAD, f"remove from SPREAD: {SPREAD - spread_classes().keys()}"


def changes(function: ast.FunctionDef) -> list[str]:
    """What a function assigns to of `self`, or of what `self` has."""
    targets = [node for node in ast.walk(function) if isinstance(node, ast.Attribute | ast.Subscript)]
    names = [ast.unparse(node) for node in targets if not isinstance(node.ctx, ast.Load)]
    return [name for name in names if name.startswith("self.") and not name.startswith("self.__dict__")]  # a cache


def test_no_property_changes_anything():
    changing = {
        f"{module}.{node.name}": changes(node)
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "property" in map(ast.unparse, node.decorator_list) and changes(node)
    }
    assert not changing, f"make methods of these properties: {changing}"


def test_the_rule_finds_a_property_that_changes_something():
    (node,) = ast.parse("def log(self):\n    self._admission.limit, self.wanted = self.wanted, None").body
    assert isinstance(node, ast.FunctionDef)
    assert changes(node) == ["self._admission.limit", "self.wanted"]


def test_the_rule_finds_a_class_that_is_cut_in_two():
    code = "class Half:\n    _lock: int\n    def run(self):\n        self._lock\n        self.step()"
    (node,) = ast.parse(code).body
    assert isinstance(node, ast.ClassDef)
    half = class_of(node, "penstock.errors")
    assert half.used - half.defined == {"_lock", "step"}
