"""Error messages for names of Kafka Streams that a class does not have, with what to write instead.

The messages of Python, for an attribute or for arguments, name neither the alternative nor the page
with all calls.
"""

import re
from abc import ABCMeta
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from oriel.pipeline.windows.definitions.errors import IllegalArgumentType

_PAGE = "(see kafka-streams-calls.md)"

_UNTIL = "Set the retention of the store with materialize(name, retention_ms=...)"
_BOUNDS = "Use the read `covering` of a store for the windows that contain a time"
_SIZE = "Write of_size_with_no_grace(size_ms), or of_size_and_grace(size_ms, grace_ms)"
_DIFFERENCE = (
    "Write of_time_difference_with_no_grace(time_difference_ms), or "
    "of_time_difference_and_grace(time_difference_ms, grace_ms)"
)
_GAP = (
    "Write of_inactivity_gap_with_no_grace(gap_ms), or of_inactivity_gap_and_grace(gap_ms, "
    "grace_ms)"
)
_WINDOW_HINTS = {"until": _UNTIL, "windows_for": _BOUNDS, "grace_period_ms": "Write grace_ms"}
_OTHER_WINDOW_HINTS = {
    **dict.fromkeys(("of_size_with_no_grace", "of_size_and_grace"), "Write TimeWindows.{}(...)"),
    **dict.fromkeys(
        ("of_time_difference_with_no_grace", "of_time_difference_and_grace"),
        "Write SlidingWindows.{}(...), or JoinWindows.{}(...) for a join",
    ),
    **dict.fromkeys(
        ("of_inactivity_gap_with_no_grace", "of_inactivity_gap_and_grace"),
        "Write SessionWindows.{}(...)",
    ),
}
#: A class -> a name in Python's spelling -> what to do. ``{}`` is replaced by the name.
_NAME_HINTS: Mapping[str, Mapping[str, str]] = {
    "TimeWindows": {
        **_WINDOW_HINTS,
        **_OTHER_WINDOW_HINTS,
        **dict.fromkeys(("of", "of_size", "grace"), _SIZE),
        "size": "Write size_ms",
    },
    "SlidingWindows": {
        **_WINDOW_HINTS,
        **_OTHER_WINDOW_HINTS,
        **dict.fromkeys(
            ("of", "of_time_difference", "with_time_difference_and_grace", "grace"), _DIFFERENCE
        ),
        "advance_by": "Records define these windows. Use TimeWindows for hopping windows",
    },
    "SessionWindows": {
        **_WINDOW_HINTS,
        **_OTHER_WINDOW_HINTS,
        **dict.fromkeys(("of", "of_inactivity_gap", "with", "grace"), _GAP),
        "inactivity_gap": "Write inactivity_gap_ms",
        "advance_by": "Records define these windows. Use TimeWindows for hopping windows",
    },
    "JoinWindows": {
        **_WINDOW_HINTS,
        **_OTHER_WINDOW_HINTS,
        **dict.fromkeys(("of", "of_time_difference", "grace"), _DIFFERENCE),
        "size": "Write before_ms + after_ms",
    },
    "EmitStrategy": {"type": "Write is_on_close"},
}


# The definitions of windows have abstract methods, which need ``ABCMeta``, and a class has only one
# metaclass.
class _HintingMeta(ABCMeta):
    """The metaclass of ``KafkaHints``, for names that a program reads from the class itself."""

    # Type checkers must see only the attributes that exist.
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            """Reject a name that does not exist, with the alternative if one is known."""
            # With ``name`` and ``obj``, Python also suggests a similar name in a traceback.
            message = f"type object {cls.__name__!r} has no attribute {name!r}"
            raise AttributeError(message + _hint(cls, name), name=name, obj=cls)


class KafkaHints(metaclass=_HintingMeta):
    """A class whose error messages name the alternative to a name of Kafka Streams.

    This applies to names that do not exist, and to arguments that the methods in
    ``_ARGUMENT_HINTS`` do not accept.
    """

    #: A class -> a name in Python's spelling -> what to do. ``{}`` is replaced by the name.
    _NAME_HINTS: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    #: A method -> what to do about arguments of Kafka Streams that it does not accept.
    _ARGUMENT_HINTS: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Wrap the methods in ``_ARGUMENT_HINTS``: their messages then name the alternative."""
        super().__init_subclass__(**options)
        # The loop needs a copy of the attributes, because ``setattr`` changes them.
        for name, method in list(vars(cls).items()):
            if name in cls._ARGUMENT_HINTS and isinstance(method, FunctionType):
                setattr(cls, name, _with_hint(method, cls._ARGUMENT_HINTS[name]))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Reject a name that does not exist, with the alternative if one is known.

            Raises:
                AttributeError: Always, so that ``hasattr`` is False as for any object.
            """
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message + _hint(type(self), name), name=name, obj=self)


def _hint(of_class: type[KafkaHints], name: str) -> str:
    """Return the text to append to Python's message about a name that does not exist."""
    # Python itself looks for such names when it copies or prints an object.
    if name.startswith("_"):
        return ""
    # For example, ofSizeWithNoGrace becomes ``of_size_with_no_grace``.
    snake_case = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda capital: f"_{capital[0]}", name).lower()
    # The names ``with_`` and ``as_`` replace keywords of Python.
    snake_case = snake_case.rstrip("_")
    # ``getattr`` would call ``__getattr__`` for an unknown name, and so this function without end.
    found = next(
        (vars(each)[snake_case] for each in of_class.__mro__ if snake_case in vars(each)), 0
    )
    if found or snake_case in getattr(of_class, "__dataclass_fields__", {}):
        is_called = isinstance(found, FunctionType | classmethod | staticmethod)
        return f". Write {snake_case}{'(...)' * is_called} {_PAGE}"
    hint = of_class._NAME_HINTS.get(of_class.__name__, {}).get(snake_case)  # noqa: SLF001 - ours
    return "" if hint is None else f". {hint.format(snake_case)} {_PAGE}"


def _with_hint(method: Callable[..., Any], hint: str) -> Callable[..., Any]:
    """Return the method with a message that names ``hint`` if its arguments are wrong.

    Raises:
        IllegalArgumentType: The method does not accept the arguments.
    """
    accepted = signature(method)
    of_class, name = method.__qualname__.split(".")[-2:]
    called = of_class if name == "__init__" else name
    own = [each.replace(annotation=Parameter.empty) for each in accepted.parameters.values()][1:]
    shown = accepted.replace(parameters=own, return_annotation=Signature.empty)

    @wraps(method)
    def checked(*args: Any, **named: Any) -> Any:
        try:
            # The arguments are tested before the call, so a ``TypeError`` of the method itself
            # keeps its message.
            accepted.bind(*args, **named)
        except TypeError as error:
            message = f"{called}: {error}. It accepts {shown}. {hint} {_PAGE}"
            raise IllegalArgumentType(message) from error
        return method(*args, **named)

    return checked


class WindowHints(KafkaHints):
    """A window definition whose error messages name alternatives to names of Kafka Streams."""

    _NAME_HINTS: ClassVar[Mapping[str, Mapping[str, str]]] = _NAME_HINTS
