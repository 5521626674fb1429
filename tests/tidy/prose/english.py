"""Judges sentences: each rule has a name and says how to write the sentence instead.

The rules know words, not grammar, so they let some bad sentences pass. `bad.txt` has sentences
that they catch, `good.txt` plain ones that they let pass. A rule that refuses a plain sentence is
mended here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from tests.tidy.prose.gather import DOCSTRINGS, Kind, Piece


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


VERBS = _set(
    """
    accept acknowledge ack acquire act adapt add adjust admit adopt advance aggregate allocate
    allow announce answer append apply approve arm ask assemble assert assign assume attach
    authenticate authorize await back balance batch become begin belong bind block bound bring
    build bump cache calculate call cancel cap carry cast catch cause chain change charge
    check choose claim classify clean clear clone close collect combine come commit compact
    compare compile complete compress compute configure confirm connect consider construct
    consume contain continue control convert copy cost count cover create cut deal decide
    declare decode decompress decrease decrypt define delay delegate delete deliver deny
    depend derive describe deserialize destroy detach detect determine dial die differ disable
    discard disconnect discover dispatch divide do document download drain draw drive drop
    dump echo elect emit empty enable encode encrypt end enforce enqueue ensure enter
    establish estimate evaluate examine exceed exclude execute exist exit expand expect expire
    explain export expose express extend extract fail fall feed fence fetch fill filter find
    finish fire fit flag flush fold follow forbid force forget fork form format forward free
    freeze gather generate get give go grant group grow guard guess hand handle happen have
    hash hear help hide hit hold identify ignore imitate implement import include increase
    increment infer inform inherit initialize inject insert inspect install interpret
    interrupt introduce invalidate invoke issue iterate join judge keep kill know label lack
    last launch lead learn lease leave lend let lie limit link list listen live load locate lock log
    look lose lower make manage map mark mask match maintain mean measure meet merge meter
    migrate mirror miss mount move multiply name need negotiate normalize note notice notify
    obtain occupy occur offer omit open operate order overlap override own pack pad page park
    parse pass patch pause pay peek perform permit persist pick pin place plan play poll pop
    populate possess post precede prefer prepare present preserve press prevent print process
    produce profile promise promote propagate propose protect prove provide prune publish pull
    purge push put query queue quote raise reach react read rebuild recall receive recognize
    reconcile reconnect record recover redact redeliver redirect redrive reduce refer refill
    reflect refresh refuse register reject relay release reload rely remain remember remove
    rename render renew repair repeat replace replay reply report represent request require
    reread reschedule reserve reset resize resolve respond restart restore restrict result
    resume retain retry return reuse reveal reverse revive revoke rewind rewrite ring roll
    rotate round route run sample satisfy save say scan schedule seal search see seek select
    send separate serialize serve set settle share shift show shut sign signal simulate sit
    size skip sleep slice slow snapshot solve sort spawn speak specify spend split spread
    stage stand start starve state stay step stop store stream strip submit subscribe subtract
    succeed suffice suggest supply support survive suspend swap switch sync synchronize tail
    take talk tear tell terminate test throttle throw tick time touch trace track transfer
    transform translate treat trigger trim truncate trust try turn type understand undo unlock
    unpack unsubscribe update upgrade upload use validate vanish vary verify visit wait wake
    walk want warn watch weigh withdraw work wrap write yield zero dead-letter
    """
)
_AUXILIARIES = _set(
    """
    is are was were am has have had does do did can may must will would should could might
    cannot can't isn't aren't wasn't weren't hasn't haven't doesn't don't didn't won't
    wouldn't shouldn't couldn't mustn't it's that's there's says went came took gave knew saw
    began became ran fell rose
    """
)
_SUBORDINATORS = _set(
    """
    that which who whom whose what whatever whoever how whether why where wherever when
    whenever while if because until unless although though as than once since before after
    """
)
_NO_SUBJECT = _set(
    """
    a an the of in on at by for with from to and or its their his our your no each every any
    all one two three this these some another such open new old own other same more most fewer
    last next first second many several few both not
    """
)
_PREPOSITIONS = _set(
    """
    of by per for with as from in at on until when where without after before to while if once
    since over under between beside behind below above because though although so within
    through during against
    """
)
_CLAUSES = _set("what who whom whose whoever whomever whatever how why which whether")
_PRONOUNS = _set("it they he she its their theirs ours those them these others")

_BETWEEN = _set(", never also always only often still then already soon")

CODE = "Code"
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*|[;:,]")


@cache
def _base(word: str) -> str | None:
    """Return the verb of which a word is the form with an `s`."""
    for ending, single in (("ies", "y"), ("es", ""), ("s", "")):
        if word.endswith(ending) and (verb := word.removesuffix(ending) + single) in VERBS:
            return verb
    return None


def has_main_clause(sentence: str) -> bool:
    """Return whether the subject keeps a verb once each `that`, `which` or `when` took one."""
    pending, before = 0, ","
    for word in map(str.lower, _WORD.findall(sentence)):
        if word in ";:":
            pending = 0
        elif word in _SUBORDINATORS:
            pending += word not in ("after", "before", "since") or before != ","
        elif word in _AUXILIARIES or _is_finite(word, before):
            if not pending:
                return True
            pending -= 1
        elif pending and word.endswith("ed") and before not in _NO_SUBJECT:
            pending -= 1
        if word not in _BETWEEN:
            before = word
    return False


def _is_finite(word: str, before: str) -> bool:
    if word in VERBS:
        plural = before.endswith("s") and not before.endswith(("'s", "ss", "us", "is"))
        return (plural and before not in _NO_SUBJECT) or before in ("they", "we", "you", "people")
    return before not in _NO_SUBJECT and before not in ",;:" and _base(word) is not None


def _starts_with_verb(words: list[str]) -> bool:
    first = words[0].lower()
    if "-" in first and first not in VERBS:
        first = first.rsplit("-", 1)[-1]
    if first in ("be", "does", "is", "has") or first in VERBS:
        return len(words) > 1 or first not in ("request", "batch", "queue", "group", "page")
    follows = words[1].lower() if len(words) > 1 else ""
    return _base(first) is not None and follows not in (
        "of",
        "that",
        "which",
        "whose",
        ":",
        ";",
        ",",
    )


class Fault(NamedTuple):
    """A sentence that breaks a rule; `advice` says how to write it."""

    line: int
    sentence: str
    rule: str
    advice: str


class Pattern(NamedTuple):
    rule: str
    pattern: re.Pattern[str]
    advice: str


def _pattern(rule: str, pattern: str, advice: str) -> Pattern:
    return Pattern(rule, re.compile(pattern), advice)


_CLAUSE_ADVICE = (
    "name the thing or the person: “What waits is dropped.” → “Waiting messages are dropped.”"
)
DIALECT = (
    _pattern(
        "what-who",
        r"^\W*(?:[Ww]hat(?:ever)?|[Ww]ho(?:m|se|ever|mever)?)\b(?![^.]*\?)",
        _CLAUSE_ADVICE,
    ),
    _pattern("what-who", r"; (?:and |but )?(?:what|who|whoever|whatever)\b(?!ver)", _CLAUSE_ADVICE),
    _pattern(
        "what-who",
        r"\b(?:by|for|of|to|from|with|reads?|serves?|tells?|costs?|lets?|gives?) who(?:ever)?\b",
        _CLAUSE_ADVICE,
    ),
    _pattern("what-who", r"\b[Ww]ho(?:so)?ever\b", _CLAUSE_ADVICE),
    _pattern(
        "of-first",
        r"^\W*Of (?!course\b)",
        "begin with the subject: “Of a batch each item has …” → “Each item of a batch has …”",
    ),
    _pattern(
        "number",
        r"\b[Ss]o (?:many|long|often|much (?:later|earlier|of))\b(?! (?:as|that)\b)",
        "name the number: “waits so long” → “waits up to `timeout_ms`”",
    ),
    _pattern(
        "dialect",
        r"\bgone on with\b|\b(?:is|are) had of\b|\b(?:do|does|did) not go with\b"
        r"|\b(?:[Ff]ine|[Gg]ood) where\b"
        r"|\bthan can be (?:done|served|had|taken)\b|\b(?:to|can) be had\b|\bone already like\b"
        r"|\bcome to (?:nothing|naught)\b|\bof somebody's\b|\bof nobody's\b",
        "say it with a usual verb: subject, verb, object",
    ),
)


def _stripped(text: str) -> str:
    """Return a text with one word in place of each piece of code, and links as their words."""
    text = re.sub(r"``?[^`]+``?", CODE, text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("*", "").replace("’", "'")


_PARAGRAPH = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*]|\d+\.) )")
_SENTENCE = re.compile(r"(?<=[.!?])[)\"”]?\s+(?=[A-Z`\"“(])")
_LINE_OF_CODE = re.compile(r"^(?: {4,}|\t)|[│─┌├└►]|^\s*[├└|+]|::$")


def sentences(piece: Piece) -> Iterator[tuple[int, str, bool]]:
    """Yield the sentences of a piece with their lines; the last value marks the first sentence."""
    text = piece.text
    if piece.kind in DOCSTRINGS and "\n" in text:
        head, _, rest = text.partition("\n")
        text = f"{head}\n{textwrap.dedent(rest)}"
    first, line = True, piece.line
    for paragraph in _PARAGRAPH.split(text):
        at = text.find(paragraph)
        line = piece.line + text.count("\n", 0, at)
        if piece.kind in DOCSTRINGS and _LINE_OF_CODE.search(paragraph):
            continue
        for sentence in _SENTENCE.split(_stripped(" ".join(paragraph.split()))):
            if sentence:
                yield line, sentence, first
                first = False


def judge(piece: Piece, instead: Mapping[str, str]) -> Iterator[Fault]:
    """Yield what is wrong with a piece; `instead` maps words that the glossary replaces."""
    words = _forbidden(tuple(instead.items()))
    for line, sentence, first in sentences(piece):
        for rule in DIALECT:
            if rule.pattern.search(sentence):
                yield Fault(line, sentence, rule.rule, rule.advice)
                break
        else:
            if first and piece.kind in DOCSTRINGS and (advice := fragment(sentence, piece.kind)):
                yield Fault(line, sentence, "fragment", advice)
        for word in words.findall(sentence) if words else ():
            advice = f"write “{instead[word.lower()]}” (docs/glossary.md)"
            yield Fault(line, sentence, f"glossary: “{word}”", advice)


@cache
def _forbidden(instead: tuple[tuple[str, str], ...]) -> re.Pattern[str] | None:
    if not instead:
        return None
    terms = "|".join(re.escape(term) for term, _ in sorted(instead, reverse=True))
    return re.compile(rf"\b({terms})\b(?![-/_(]|\.\w)", re.IGNORECASE)


def fragment(sentence: str, kind: Kind) -> str | None:
    """Return how to mend the first sentence of a docstring; None where it stands alone."""
    words = _WORD.findall(sentence)
    if not words:
        return None
    first = words[0].lower().removesuffix("'s")
    follows = words[1].lower() if len(words) > 1 else ""
    if first == "whether" and kind is Kind.ATTRIBUTE:
        return None
    if first in _CLAUSES:
        return "begin with a verb or a noun: “How long a lease lasts.” → “Seconds a lease lasts.”"
    if first in _PRONOUNS or (first, follows) in _UNCLEAR:
        return "name the subject: the sentence has to stand alone, without the name above it"
    whole = has_main_clause(sentence.split(";")[0])
    if (first in _PREPOSITIONS or first in ("not", "also", "again")) and not whole:
        return "add a subject and a verb: “By name.” → “List topics by name.”"
    if kind is Kind.FUNCTION and not _starts_with_verb(words) and not whole:
        return "begin with a verb: “The next message.” → “Return the next message.”"
    return None


_UNCLEAR = {
    *(
        (first, follows)
        for first in ("one", "all", "some", "each")
        for follows in ("of", ",", ";", ":")
    ),
    *((first, follows) for first in ("both", "neither") for follows in ("of", "are", "have")),
    *(("the", follows) for follows in ("same", "others", "other", "rest")),
    *((first, ":") for first in ("none", "false", "true")),
    ("as", "above"),
    ("as", "before"),
}
