"""The original logical form of COGS from a compact one, which shows that the compact form loses
nothing."""

from __future__ import annotations

import re

from ceil_jax.tasks.families.cogs import Call, parse_call

FUNCTION_WORDS = frozenset({"a", "the", "was", "to", "by", "that", "in", "on", "beside", "."})


def logical_form(compact: str, sentence: str) -> str:
    """Return the original form of a compact one; the positions of words in the sentence number its
    variables.

    Raises:
        ValueError: the form is malformed or its words are not the sentence's.
    """
    if re.fullmatch(r"\w+\((a|\w+=[ab](,\w+=[ab])*)\)", compact):
        return _primitive_form(compact)
    root = parse_call(compact)
    if not root.arguments:
        return root.word  # a name alone
    nouns, verbs = _nouns_and_verbs(root)
    position = _positions(root, nouns, verbs, sentence.split())
    definite = []
    terms = []
    for call in sorted(nouns + verbs, key=lambda call: position[id(call)]):
        variable = f"x _ {position[id(call)]}"
        if call.definite:
            definite.append(f"* {call.word} ( {variable} ) ; ")
        elif any(call is noun for noun in nouns):
            terms.append(f"{call.word} ( {variable} )")
        for role, value in call.arguments:
            argument = value.word if _is_name(value) else f"x _ {position[id(value)]}"
            terms.append(f"{call.word} . {role.replace('.', ' . ')} ( {variable} , {argument} )")
    return "".join(definite) + " AND ".join(terms)


def _is_name(call: Call) -> bool:
    return call.word[:1].isupper()


def _nouns_and_verbs(root: Call) -> tuple[list[Call], list[Call]]:
    """The calls that are not names; each infinitive gets the agent of its governor."""
    nouns: list[Call] = []
    verbs: list[Call] = []

    def visit(call: Call, noun: bool) -> None:
        if not _is_name(call):
            (nouns if noun else verbs).append(call)
        for role, value in call.arguments:
            visit(value, noun=role not in ("ccomp", "xcomp"))
        agent = dict(call.arguments).get("agent")
        for role, value in call.arguments:
            if role == "xcomp" and agent is not None:
                value.arguments.insert(0, ("agent", agent))

    visit(root, noun=False)
    return nouns, verbs


def _names(call: Call) -> set[str]:
    inside = set().union(*(_names(value) for _, value in call.arguments))
    return inside | ({call.word} if _is_name(call) else set())


def _positions(
    root: Call, nouns: list[Call], verbs: list[Call], words: list[str]
) -> dict[int, int]:
    """The position of the word of each noun and verb, by the call's identity.

    Nouns stand in the sentence as they are and verbs inflected; each kind comes in the same order
    in the sentence as in the form, so one pass over the content words settles which is which.
    """
    found: dict[int, int] = {}
    names = _names(root)
    noun_queue = iter(nouns)
    verb_queue = iter(verbs)
    noun = next(noun_queue, None)
    for position, word in enumerate(words):
        if word.lower() in FUNCTION_WORDS or word in names:
            continue
        if noun is not None and word.lower() == noun.word:  # "TV" is tv
            found[id(noun)] = position
            noun = next(noun_queue, None)
        else:
            verb = next(verb_queue, None)
            if verb is None:
                raise ValueError(f"{word!r} is in the sentence but not in the form")
            found[id(verb)] = position
    unplaced = [call.word for call in nouns + verbs if id(call) not in found]
    if unplaced:
        raise ValueError(f"the sentence has no word for {', '.join(unplaced)}")
    return found


def _primitive_form(compact: str) -> str:
    word, inside = compact.removesuffix(")").split("(")
    if "=" not in inside:
        return f"LAMBDA {inside} . {word} ( {inside} )"
    roles = [pair.split("=") for pair in inside.split(",")]
    prefix = "".join(f"LAMBDA {name} . " for name in [*sorted(name for _, name in roles), "e"])
    return prefix + " AND ".join(f"{word} . {role} ( e , {name} )" for role, name in roles)
