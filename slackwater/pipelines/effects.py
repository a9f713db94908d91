"""Whether a top-level statement of a user's file may do more than bind its own names: change an object that
another statement has made, or something outside of the file.

Judged by what is written. A statement has none if all that it calls is known to change nothing: what
Slackwater and some modules of the standard library offer for declarations, builtins that make values, methods
that read, and functions and classes of the user's that keep to the same. Every other statement may have
effects.
"""

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from slackwater.pipelines.user_modules import UserModule

_PACKAGES = (
    "slackwater slackwater.windowing slackwater.testing datetime decimal fractions math dataclasses typing "
    "collections collections.abc enum zoneinfo string re abc operator statistics calendar pathlib numbers "
    "types uuid functools itertools json logging textwrap hashlib"
)
_BUILTINS = (
    "dict list tuple set frozenset str int float bool bytes complex len range zip enumerate min max sum abs "
    "round sorted reversed any all repr isinstance issubclass type super slice divmod pow ord chr hash "
    "property staticmethod classmethod object ValueError TypeError KeyError RuntimeError Exception"
)
_METHODS = (
    "format join split lower upper strip items keys values get copy replace startswith endswith isoformat "
    "total_seconds removeprefix removesuffix title date strftime astimezone count index encode decode"
)
_SAFE_PACKAGES = frozenset(_PACKAGES.split())
_SAFE_BUILTINS = frozenset(_BUILTINS.split())
_READING_METHODS = frozenset(_METHODS.split())
_CONSTRUCTORS = frozenset(["__init__", "__new__", "__post_init__"])
_INERT = (ast.Import, ast.ImportFrom, ast.Pass, ast.Expr)
_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.Match)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Effects:
    """Judges statements; `module_of` gives the user's module of a name, None for others."""

    def __init__(self, module_of: Callable[[str], UserModule | None]) -> None:
        self._module_of = module_of
        self._acting: dict[int, bool] = {}

    def may_have(self, module: UserModule, node: ast.stmt) -> bool:
        """Whether running `node`, a statement at the top level of `module` or inside of one, may have an
        effect.
        """
        match node:
            case ast.Assign(targets=targets):
                return not all(map(_is_plain, targets)) or self._calls(module, node)
            case ast.AnnAssign(target=target):
                return not _is_plain(target) or self._calls(module, node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._makes_with_effects(module, node.decorator_list, node.args)
            case ast.ClassDef():
                return self._class_has_effects(module, node)
            case ast.For(target=target) if not _is_plain(target):
                return True
        if isinstance(node, _COMPOUND):
            return self._calls(module, node) or any(
                self.may_have(module, item) for item in _statements_in(node)
            )
        return not isinstance(node, _INERT) or self._calls(module, node)

    def _makes_with_effects(
        self, module: UserModule, decorators: Sequence[ast.expr], operands: ast.AST
    ) -> bool:
        """Whether decorators, or the `operands` that a definition evaluates besides its body, act."""
        return self._calls(module, operands) or any(
            self._calls(module, item) or not self._is_known(module, item) for item in decorators
        )

    def _class_has_effects(self, module: UserModule, node: ast.ClassDef) -> bool:
        if node.keywords or any(self.may_have(module, item) for item in node.body):
            return True
        bases = ast.Tuple(node.bases, ast.Load())
        return self._makes_with_effects(module, node.decorator_list, bases) or any(
            not self._is_known_base(module, base) for base in node.bases
        )

    def _is_known_base(self, module: UserModule, base: ast.expr) -> bool:
        """Whether a subclass of `base` is made without running code of the user's."""
        if self._origin(module, base) in _SAFE_PACKAGES:
            return True
        if isinstance(base, ast.Subscript):  # Generic[T]
            return self._is_known_base(module, base.value)
        place = self._place(module, base)
        if place is None:
            return isinstance(base, ast.Name) and not self._definitions(module, base.id)  # a builtin
        other, name = place
        match self._definitions(other, name):
            case [ast.ClassDef() as parent]:
                return not any(name == "__init_subclass__" for name in _methods(parent)) and all(
                    self._is_known_base(other, item) for item in parent.bases
                )
        return False

    def _calls(self, module: UserModule, node: ast.AST) -> bool:
        """Whether an expression in `node`, but not in functions that it defines, calls what may have an
        effect.
        """
        inner_names = {
            name.id
            for item in ast.walk(node)
            if isinstance(item, ast.comprehension)
            for name in ast.walk(item.target)
            if isinstance(name, ast.Name)
        }
        return any(not self._is_harmless(module, call, inner_names) for call in _calls_in(node))

    def _is_harmless(self, module: UserModule, call: ast.Call, inner_names: Collection[str] = ()) -> bool:
        """Whether a call has no effect. `inner_names` are those of the function around it: what they mean is
        not known.
        """
        root = _root(call.func)
        if isinstance(root, ast.Name) and root.id in inner_names:
            return isinstance(call.func, ast.Attribute) and call.func.attr in _READING_METHODS
        if not self._is_known(module, call.func):
            return False
        # A function that is handed over may be called there; Slackwater calls none when it is declared.
        handed_over = [*call.args, *(item.value for item in call.keywords)]
        return self._origin(module, call.func).startswith("slackwater") or not any(
            self._may_act(module, item) for item in handed_over
        )

    def _may_act(self, module: UserModule, value: ast.expr) -> bool:
        """Whether calling `value` may have an effect, if it is a function or class."""
        if isinstance(value, ast.Lambda):
            return True
        return isinstance(value, ast.Name) and any(
            isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ImportFrom)
            and not self._is_definition_known(module, value.id, item)
            for item in self._definitions(module, value.id)
        )

    def _is_known(self, module: UserModule, function: ast.expr) -> bool:
        """Whether calling `function`, or decorating with it, is known to have no effect."""
        if isinstance(function, ast.Call):  # a decorator with arguments
            return self._is_known(module, function.func)
        if isinstance(function, ast.Attribute) and function.attr == "register":
            return False
        if self._origin(module, function) in _SAFE_PACKAGES:
            return True
        if isinstance(function, ast.Attribute) and function.attr in _READING_METHODS:
            return True
        place = self._place(module, function)
        return place is not None and self._is_name_known(*place)

    def _place(self, module: UserModule, value: ast.expr) -> tuple[UserModule, str] | None:
        """(the user's module, the name in it) that a name or `helper.name` stands for."""
        if isinstance(value, ast.Name):
            match self._definitions(module, value.id):
                case [ast.ImportFrom(names=names) as node]:
                    other = self._module_of(module.absolute(node))
                    original = next(item.name for item in names if (item.asname or item.name) == value.id)
                    return None if other is None else (other, original)
            return module, value.id
        return self._attribute_of_module(module, value) if isinstance(value, ast.Attribute) else None

    def _is_name_known(self, module: UserModule, name: str) -> bool:
        """Whether all that binds `name` in `module` is a function or class without effects."""
        definitions = self._definitions(module, name)
        if not definitions:
            return name in _SAFE_BUILTINS
        return all(self._is_definition_known(module, name, item) for item in definitions)

    def _is_definition_known(self, module: UserModule, name: str, node: ast.stmt) -> bool:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return not node.decorator_list and not self._function_acts(module, node)
            case ast.ClassDef():
                return not self.may_have(module, node) and not self._construction_acts(module, node)
            case ast.ImportFrom():
                if module.absolute(node) in _SAFE_PACKAGES:
                    return True
                place = self._place(module, ast.Name(name, ast.Load()))
                return place is not None and place[0] is not module and self._is_name_known(*place)
        return False

    def _construction_acts(self, module: UserModule, node: ast.ClassDef) -> bool:
        """Whether making an object of the class may have an effect, its bases included."""
        if any(
            self._function_acts(module, item, frozenset(["self", "cls"]))
            for name, item in _methods(node).items()
            if name in _CONSTRUCTORS
        ):
            return True
        for base in node.bases:
            place = None if self._origin(module, base) in _SAFE_PACKAGES else self._place(module, base)
            if place is not None and any(
                not isinstance(item, ast.ClassDef) or self._construction_acts(place[0], item)
                for item in self._definitions(*place)
            ):
                return True
        return False

    def _function_acts(
        self, module: UserModule, node: Function, own_names: frozenset[str] = frozenset()
    ) -> bool:
        """Whether calling a function may have an effect; so it is said of one that calls itself. Attributes
        of `own_names` are its own to set.
        """
        if id(node) in self._acting:
            return self._acting[id(node)]
        self._acting[id(node)] = True
        inner_names = {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}
        inner_names |= {
            item.id
            for item in ast.walk(node)
            if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        }
        inner_names |= {
            item.name for item in ast.walk(node) if item is not node and isinstance(item, Function)
        }
        nodes = [item for statement in node.body for item in ast.walk(statement)]
        acts = any(_changes(item, own_names) for item in nodes) or any(
            not self._is_harmless(module, item, inner_names) for item in nodes if isinstance(item, ast.Call)
        )
        self._acting[id(node)] = acts
        return acts

    def _definitions(self, module: UserModule, name: str) -> list[ast.stmt]:
        return [item.node for item in module.statements_by_name.get(name, ())]

    def _origin(self, module: UserModule, function: ast.expr) -> str:
        """The module that the root of a chain of attributes and calls is imported from; empty where it is not
        imported, or bound in several ways.
        """
        root = _root(function)
        if not isinstance(root, ast.Name):
            return ""
        match self._definitions(module, root.id):
            case [ast.ImportFrom() as node]:
                return module.absolute(node)
            case [ast.Import(names=[alias])] if alias.asname or "." not in alias.name:
                return alias.name
        return ""

    def _attribute_of_module(
        self, module: UserModule, function: ast.Attribute
    ) -> tuple[UserModule, str] | None:
        """(the user's module, the name in it) of `helper.function`; None for other attributes."""
        if not isinstance(function.value, ast.Name):
            return None
        match self._definitions(module, function.value.id):
            case [ast.Import(names=[alias])]:
                other = self._module_of(alias.name)
            case [ast.ImportFrom(names=names) as node]:
                original = next(
                    (item.name for item in names if (item.asname or item.name) == function.value.id), ""
                )
                other = self._module_of(f"{module.absolute(node)}.{original}".lstrip("."))
            case _:
                return None
        return None if other is None else (other, function.attr)


def _is_plain(target: ast.expr) -> bool:
    """Whether an assignment to `target` binds names alone."""
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_plain, target.elts))
    return isinstance(target, ast.Name) or (isinstance(target, ast.Starred) and _is_plain(target.value))


def _root(value: ast.expr) -> ast.expr:
    """`a` of `a.b(c).d`."""
    while isinstance(value, ast.Attribute | ast.Call):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value


def _statements_in(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside a compound one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _statements_in(child)


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that running `node` makes: not those in the bodies of functions, nor those of statements
    inside.
    """
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda | ast.stmt):
            yield from _calls_in(child)


def _methods(node: ast.ClassDef) -> dict[str, Function]:
    return {item.name: item for item in node.body if isinstance(item, Function)}


def _changes(node: ast.AST, own_names: frozenset[str]) -> bool:
    """Whether a node inside a function changes more than names of the function: an item or attribute, but for
    one of `own_names`, or a global.
    """
    match node:
        case ast.Global() | ast.Import() | ast.ImportFrom() | ast.Await() | ast.AugAssign() | ast.With():
            return True
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name not in own_names
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
    return False
