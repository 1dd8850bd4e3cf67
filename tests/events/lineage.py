"""OpenLineage's events as its own client reads them, and as its published schemas demand them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from openlineage.client import generated
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from referencing import Registry, Resource

PLACES = (("run", "facets"), ("job", "facets"))
OF_DATASETS = ("facets", "inputFacets", "outputFacets")


@cache
def classes() -> dict[str, Any]:
    """Return the client's classes of facets, by the schema that each was generated from."""
    modules = [import_module(f"{generated.__name__}.{one.name}") for one in iter_modules(generated.__path__)]
    found = [one for module in modules for one in vars(module).values() if hasattr(one, "_get_schema")]
    return {one._get_schema(): one for one in found}


def read_by_client(sent: dict[str, Any]) -> RunEvent:
    """Make the client's objects of JSON; fail if it misses something that it wants, or does not know something."""
    event: Any = msgspec.convert(sent, RunEvent)
    for made, plain in _holders(event, sent):
        for name, facet in plain.items():
            made[name] = msgspec.convert(facet, classes()[facet["_schemaURL"]])
    assert json.loads(Serde.to_json(event)) == sent
    read: RunEvent = event
    return read


def _holders(event: Any, sent: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for where, facets in PLACES:
        yield getattr(getattr(event, where), facets), sent[where][facets]
    for side in ("inputs", "outputs"):
        for made, plain in zip(getattr(event, side), sent[side], strict=True):
            for facets in OF_DATASETS:
                if facets in plain:
                    yield getattr(made, facets), plain[facets]


def require_as_published(sent: dict[str, Any], directory: Path) -> None:
    """Validate an event and each of its facets against the schemas that they name, of a copy of the published ones."""
    registry: Registry[Any] = Registry(retrieve=lambda uri: Resource.from_contents(_schema(uri, directory)))
    named = [(sent, sent["schemaURL"]), *((facet, facet["_schemaURL"]) for facet in _facets(sent))]
    assert len(named) > 1
    for body, url in named:
        validator = Draft202012Validator({"$ref": url}, registry=registry, format_checker=FormatChecker())
        validator.validate(body)


def _facets(inside: Any) -> Iterator[dict[str, Any]]:
    """Yield everything that names a schema of its own, however deep."""
    if isinstance(inside, dict) and "_schemaURL" in inside:
        yield inside
    for one in inside.values() if isinstance(inside, dict) else inside if isinstance(inside, list) else ():
        yield from _facets(one)


def _schema(uri: str, directory: Path) -> Any:
    assert uri.startswith("https://openlineage.io/spec/"), uri
    return json.loads((directory / uri.partition("/spec/")[2].partition("#")[0]).read_text())
