"""The shape of the code: how much a module imports, no class spread over files, no property that changes anything, and
one place for what a process keeps."""

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


#: The one value of a module that functions change.
PROCESS_STATE = "penstock.process_state.process"


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
    has_state: bool = False  # some method but the constructor assigns to `self`, or the constructor makes a container

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
    found.has_state = any(changes(part) for part in methods(node) if part.name != "__init__") or any(
        is_container(part.value)
        for method in methods(node)
        for part in ast.walk(method)
        if isinstance(part, ast.Assign | ast.AnnAssign) and ast.unparse(part).startswith("self.")
    )
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            (found.used if isinstance(part.ctx, ast.Load) else found.defined).add(part.attr)
    return found


def methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [part for part in node.body if isinstance(part, ast.FunctionDef)]


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
    halves = {name: sorted(missing) for name, missing in spread_classes().items()}
    assert not halves, f"these use what only their subclass defines; let one own the other: {halves}"


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


#: What makes a container, or a counter, that can be changed.
CONTAINERS = {"dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray", "count", "cycle"}
CONTAINERS |= {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
#: Methods that change a container.
CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem"}
CHANGING |= {"popleft", "remove", "reverse", "setdefault", "sort", "update"}


def is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2].split("[")[0] in CONTAINERS
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def module_values(tree: ast.Module) -> dict[str, ast.expr]:
    """What a module assigns to names, outside of functions and classes."""
    values = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            values |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return values


def changed_names(tree: ast.Module) -> set[str]:
    """The names, with modules before a dot, whose values functions change or replace."""
    names: set[str] = set()
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    )
    for node in (part for function in functions for part in ast.walk(function)):
        if isinstance(node, ast.Global):
            names |= set(node.names)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            names.add(ast.unparse(node.value))
        elif isinstance(node, ast.AugAssign):
            names.add(ast.unparse(node.target))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            names.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "next" and node.args:
            names.add(ast.unparse(node.args[0]))
    return names


def process_wide(module: str, tree: ast.Module) -> set[str]:
    """The names in this module of values that functions change, of its own and of other modules."""
    own = {name: f"{module}.{name}" for name, value in module_values(tree).items() if is_container(value)}
    replaced = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    taken = (
        {name: full for name, full in imported(module).items() if full not in modules()} if module in modules() else {}
    )
    known = {**taken, **own, **{name: f"{module}.{name}" for name in replaced}}
    return {known[name] for name in changed_names(tree) if name in known}


def shared_objects(module: str, tree: ast.Module) -> set[str]:
    """The names of a module's objects whose classes assign to `self` after they were made."""
    names = set()
    for name, value in module_values(tree).items():
        made = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        one = classes().get(imported(module).get(made, f"{module}.{made}"))
        if one is not None and one.has_state:
            names.add(f"{module}.{name}")
    return names


def test_no_module_has_values_that_functions_change():
    shared = {name for module, tree in modules().items() for name in process_wide(module, tree)}
    shared |= {name for module, tree in modules().items() for name in shared_objects(module, tree)}
    assert shared == {PROCESS_STATE}, f"let an object own these, or keep them in process_state: {sorted(shared)}"


def test_every_cache_of_a_function_has_a_bound():
    unbounded = [
        f"{module}.{node.name}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in map(ast.unparse, node.decorator_list)
        if decorator in ("cache", "functools.cache") or "maxsize=None" in decorator
    ]
    assert not unbounded, f"use lru_cache with a size, or keep it in process_state: {unbounded}"


def test_the_rule_finds_values_of_a_module_that_functions_change():
    code = """
_kept: dict[str, int] = {}
_names = []
_numbers = itertools.count()
_last = None
FIXED = {"a": 1}

def put(name):
    global _last
    _kept[name] = next(_numbers)
    _names.append(name)
    _last, own = name, {}
    own[name] = FIXED[name]
"""
    assert process_wide("m", ast.parse(code)) == {"m._kept", "m._names", "m._numbers", "m._last"}
