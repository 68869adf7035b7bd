"""The shells' completions, from the command line's parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from pages import commands, own

from capacityd.cli import command_parser
from capacityd.detectors import load, names
from capacityd.model import DeviceDetector

_FILES = ("FILE", "PATH")

_BASH = r"""# capacityd(8) completion
_capacityd() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= words= i
    COMPREPLY=()
    [[ $cur == = ]] && cur=
    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            VALUED) [[ ${COMP_WORDS[++i]} == = ]] && ((++i)) ;;
            -*) ;;
            *) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    case $prev in
        FILED) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
        VALUED) return ;;
    esac
    case $command,$cur in
CASES
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
} && complete -F _capacityd capacityd
"""

_ZSH = r"""#compdef capacityd
_capacityd() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    local -a common=(
COMMON
    )
    _arguments -C $common '--version[show the version]' '1:command:->command' '*::argument:->argument'
    case $state in
        command)
            local -a commands=(
LISTED
            )
            _describe command commands ;;
        argument)
            case $words[1] in
CASES
            esac ;;
    esac
}
_capacityd "$@"
"""


def bash() -> str:
    """For /usr/share/bash-completion/completions."""
    parser = command_parser()
    everywhere = [a for a in parser._actions if a.option_strings]
    valued = [a for _, _, c in commands() for a in own(c) if a.option_strings and a.nargs != 0]
    valued += [a for a in everywhere if a.nargs != 0]
    filed = [a for a in valued if a.metavar in _FILES]
    cases = [_case(",-*", _flags(everywhere)), _case(",*", [name for name, _, _ in commands()])]
    for name, _, command in commands():
        places = [a for a in own(command) if not a.option_strings]
        common = [a for a in everywhere if "--version" not in a.option_strings]
        cases.append(_case(f"{name},-*", [*_flags(own(command)), *_flags(common)]))
        if any(a.metavar in _FILES for a in places):
            files = 'compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return'
            cases.append(f"        {name},*) {files} ;;")
        elif places:
            cases.append(_case(f"{name},*", [word for a in places for word in _words(a)]))
    text = _BASH.replace("FILED", "|".join(_flags(filed))).replace("VALUED", "|".join(_flags(valued)))
    return text.replace("CASES", "\n".join(cases))


def zsh() -> str:
    """For /usr/share/zsh/vendor-completions."""
    common = [a for a in command_parser()._actions if a.option_strings and "--version" not in a.option_strings]
    listed = [f"                {_quoted(f'{name}:{_plain(about)}')}" for name, about, _ in commands()]
    cases = [
        f"                {name}) _arguments {' '.join(['$common', *map(_argument, own(command))])} ;;"
        for name, _, command in commands()
    ]
    text = _ZSH.replace("COMMON", "\n".join(f"        {_argument(a)}" for a in common))
    return text.replace("LISTED", "\n".join(listed)).replace("CASES", "\n".join(cases))


def _case(pattern: str, words: Iterable[str]) -> str:
    return f'        {pattern}) words="{" ".join(words)}" ;;'


def _flags(actions: Iterable[argparse.Action]) -> list[str]:
    return list(dict.fromkeys(flag for action in actions for flag in action.option_strings))


def _words(action: argparse.Action) -> list[str]:
    if action.metavar == "DETECTOR":
        return [name for name in names() if isinstance(load(name), DeviceDetector)]
    return [*map(str, action.choices or ())]


def _argument(action: argparse.Action) -> str:
    about, what = _plain(action.help or ""), action.metavar or action.dest
    means = "_files" if action.metavar in _FILES else f"({' '.join(_words(action))})" if _words(action) else " "
    if not action.option_strings:
        return _quoted(f":{what}:{means}")
    value = "" if action.nargs == 0 else f":{what}:{means}"
    flags = action.option_strings
    if len(flags) > 1:
        return f"'({' '.join(flags)})'{{{','.join(flags)}}}{_quoted(f'[{about}]{value}')}"
    return _quoted(f"{flags[0]}{'' if not value else '='}[{about}]{value}")


def _plain(text: str) -> str:
    """Without what means something to _arguments and _describe."""
    return text.replace("[", "(").replace("]", ")").replace(":", r"\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"
