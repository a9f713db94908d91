"""No module imports itself by way of others, not even for types alone."""

import sys

import grimp


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other (Tarjan's strongly connected components of more than
    one).
    """
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    groups = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for imported in imports[module]:
            if imported not in numbers:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in path:
                lowest[module] = min(lowest[module], numbers[imported])
        if lowest[module] == numbers[module]:
            start = path.index(module)
            group = path[start:]
            del path[start:]
            if len(group) > 1:
                groups.append(sorted(group))

    for module in imports:
        if module not in numbers:
            visit(module)
    return groups


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("slackwater", exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 300 and any(imports.values()), "nothing would be checked"
    assert len(imports) < sys.getrecursionlimit()
    assert cycles(imports) == []


def test_a_cycle_would_be_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
