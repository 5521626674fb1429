"""Writes the asyncio resources of the SDK; `generate_sync.py` makes synchronous ones of them."""

from __future__ import annotations

from openapi.areas import OPERATIONS
from openapi.sdk.calls import area_names, result
from openapi.sdk.methods import Area, Argument, Method, arguments, call_name, with_settings
from openapi.sdk.text import docstring, module

SEND = "await self._sender.send({call}, timeout_s)"
TIMEOUT = "timeout_s: float | None = None"
ONE_PAGE = "Return one page; `page_token` is that of the page before."


def written(*areas: Area) -> str:
    """Return the text of the resources of areas whose calls are in one module."""
    doc = areas[0].doc if len(areas) == 1 else f"Bases of resources: {area_names(areas)}."
    return module(doc, areas[0], "\n\n\n".join(_resource(each) for each in areas), calls=True)


def _resource(area: Area) -> str:
    shown = [each for each in area.methods if each.name]
    methods = "\n\n".join(text for each in shown for text in _methods(area, each))
    start = "    def __init__(self, sender: AsyncSender) -> None:\n        self._sender = sender"
    return f"class {class_name(area)}:\n{docstring(area.doc, 4)}\n\n{start}\n\n{methods}"


def class_name(area: Area) -> str:
    return f"Async{area.kind}Operations" if area.base else f"Async{area.kind}"


def _methods(area: Area, method: Method) -> list[str]:
    if OPERATIONS[method.operation].paged:
        return [_list(area, method), _page(area, method)]
    return [_single(area, method)]


def _list(area: Area, method: Method) -> str:
    kind = _item(area, method)
    head = _head(area, method, ["page_size: int = 100", TIMEOUT, *_settings(method)])
    call = _chosen(area, method, ["page_size", "token"])
    return (
        f"    def {method.name}({head}) -> AsyncIterator[{kind}]:\n{docstring(method.doc, 8)}\n"
        f"        return every(self._sender, lambda token: {call}, timeout_s)"
    )


def _page(area: Area, method: Method) -> str:
    kind = method.result or f"Page[{_item(area, method)}]"
    paging = ["page_size: int = 100", "page_token: str | None = None", TIMEOUT, *_settings(method)]
    call = _chosen(area, method, ["page_size", "page_token"])
    return (
        f"    async def {method.page}({_head(area, method, paging)}) -> {kind}:\n"
        f"{docstring(ONE_PAGE, 8)}\n        return {SEND.format(call=call)}"
    )


def _single(area: Area, method: Method) -> str:
    kind = _named(area, result(method, OPERATIONS[method.operation])[0])
    head = _head(area, method, [TIMEOUT, *_settings(method)])
    text = f"    async def {method.name}({head}) -> {kind}:\n{docstring(method.doc, 8)}\n"
    back = "" if kind == "None" else "return "
    if method.own:
        own = SEND.format(call=_call(area, method, method.own, []))
        condition = f"{_owner(area, method)} is None"
        text += f"        if {condition}:\n            {back}{own}\n"
    return text + f"        {back}{SEND.format(call=_call(area, method, method.operation, []))}"


def _rest(method: Method) -> str:
    names = {"Changes": "changes", "Filter": "filters"}
    return next((name for end, name in names.items() if method.settings.endswith(end)), "settings")


def _settings(method: Method) -> list[str]:
    return [f"**{_rest(method)}: Unpack[{method.settings}]"] if method.settings else []


def _item(area: Area, method: Method) -> str:
    return _named(area, result(method, OPERATIONS[method.operation])[0])


def _named(area: Area, kind: str) -> str:
    """Return the type under a name that no class of the module has."""
    return f"models.{kind}" if kind == area.kind else kind


def _head(area: Area, method: Method, last: list[str]) -> str:
    given = arguments(area, method)
    positional = [_parameter(each) for each in given if not each.keyword]
    named = [_parameter(each) for each in given if each.keyword]
    return ", ".join(["self", *positional, "*", *named, *last])


def _parameter(argument: Argument) -> str:
    text = f"{argument.name}: {argument.kind}"
    return text if argument.default is None else f"{text} = {argument.default}"


def _owner(area: Area, method: Method) -> str:
    return next(each.name for each in arguments(area, method) if each.where == "path")


def _chosen(area: Area, method: Method, last: list[str]) -> str:
    call = _call(area, method, method.operation, last)
    if not method.own:
        return call
    own = _call(area, method, method.own, last)
    return f"{own} if {_owner(area, method)} is None else {call}"


def _call(area: Area, method: Method, operation_id: str, last: list[str]) -> str:
    given = arguments(area, method, operation_id)
    names = [each.name for each in given]
    if method.settings:
        names = with_settings(names, given, _rest(method))
    return f"calls.{call_name(method, operation_id)}({', '.join([*names, *last])})"
