"""Slips of the keyboard in commands and options, in the words of the other errors: what, why, and the nearest right one."""

from __future__ import annotations

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from casehub.errors import SettingsError, did_you_mean, nearest


def usage(error: CycloptsError) -> SettingsError:
    """What the parser found wrong, and the page that helps.

    What has no words here keeps the parser's own: a value of the wrong type, a choice that is none.
    """
    chain = [*(error.command_chain or ())]
    if isinstance(error, UnknownCommandError):
        text = _unknown_command(error)
    elif isinstance(error, UnknownOptionError):
        text = _unknown_option(error)
    elif isinstance(error, UnusedCliTokensError):
        text = f"{' '.join(error.unused_tokens or ())!r} is more than it takes; put text with spaces in quotes"
    elif isinstance(error, MissingArgumentError) and error.argument is not None:
        name = error.keyword or error.argument.name
        text = f"{name} needs a value" if name.startswith("-") else f"{name} is missing"
    else:
        told = " ".join(str(error).split()).rstrip(".")
        text = f"{told[:1].lower()}{told[1:]}"
    return SettingsError(f"{' '.join(['casehub', *chain])}: {text} (see '{' '.join(['casehub', *chain])} --help')")


def _unknown_command(error: UnknownCommandError) -> str:
    """A command or a group that there is not; `error.app` is the one that was asked for it."""
    word = (error.unused_tokens or [""])[0]
    known = [name for name in error.app or App() if not name.startswith("-")]
    return f"there is no command {word!r}; {did_you_mean(word, known)}"


def _unknown_option(error: UnknownOptionError) -> str:
    """An option that the command does not have; short ones are no guess for a long one."""
    word = (error.token.keyword or error.token.value).partition("=")[0]
    known = [name for argument in error.argument_collection if argument.parse for name in argument.names]
    options = sorted(name for name in known if name.startswith("--"))
    guess = nearest(word, options)
    return f"there is no option {word}; " + (f"did you mean {guess}?" if guess else f"known: {', '.join(options)}")
