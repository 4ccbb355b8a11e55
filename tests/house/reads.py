"""Finds the fields of the configuration that the package reads.

A read is an expression `owner.field` whose owner is a section. Annotations of arguments and
attributes tell which names are sections.
"""

import ast
import dataclasses
from collections.abc import Iterator

from agent57 import config

Types = dict[str, str]  # of names, or of the attributes of a class
Field = tuple[str, str]  # the class of a section, the field

SECTIONS = {name: kind for name, kind in vars(config).items() if dataclasses.is_dataclass(kind)}
FIELDS: dict[str, Types] = {
    name: {field.name: getattr(field.type, "__name__", "") for field in dataclasses.fields(kind)}
    for name, kind in SECTIONS.items()
}


def fields_read(trees: list[ast.Module]) -> set[Field]:
    """Return every field that modules read, directly or through a property."""
    classes = {name: dict(types) for name, types in FIELDS.items()}
    for tree in trees:
        for owner, node, names in scopes(tree, {}, classes):
            target, kind = None, ""
            if isinstance(node, ast.AnnAssign):
                target, kind = node.target, named(node.annotation)
            elif isinstance(node, ast.Assign):
                target, kind = node.targets[0], type_of(node.value, names, classes)
            name = getattr(target, "attr", getattr(target, "id", ""))
            if owner and kind:
                classes.setdefault(owner, {})[name] = kind
    found: set[Field] = set()
    for tree in trees:
        for _, node, names in scopes(tree, {}, classes):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                section = type_of(node.value, names, classes)
                known = getattr(SECTIONS.get(section), node.attr, None)
                is_property = isinstance(known, property)
                read = known.fget.__code__.co_names if is_property else (node.attr,)
                found |= {(section, name) for name in read if section in FIELDS}
    return found


def scopes(
    node: ast.AST, names: Types, classes: dict[str, Types], owner: str = ""
) -> Iterator[tuple[str, ast.AST, Types]]:
    """Yield all descendants of a node, with their class and the types of names in scope."""
    if isinstance(node, ast.ClassDef):
        owner = node.name
    if isinstance(node, ast.FunctionDef):
        arguments = node.args.args + node.args.kwonlyargs
        given = {a.arg: named(a.annotation) for a in arguments}
        names = names | given | ({"self": owner} if "self" in given else {})
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            names = names | {child.targets[0].id: type_of(child.value, names, classes)}
        yield owner, child, names
        yield from scopes(child, names, classes, owner)


def named(annotation: ast.expr | None) -> str:
    """Return the class that an annotation names."""
    return annotation.id if isinstance(annotation, ast.Name) else ""


def type_of(node: ast.expr, names: Types, classes: dict[str, Types]) -> str:
    """Return the class of a name or of an attribute; "" if it is not known."""
    if isinstance(node, ast.Attribute):
        return classes.get(type_of(node.value, names, classes), {}).get(node.attr, "")
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""
