"""Transcripts with time marks: WebVTT and SRT subtitles, and lines `[00:01:02] Anna: ...`.

A file is one record with the column `messages`: a turn per change of speaker, each with `role` and
`content`. The speaker is what the file says. A line without a speaker goes on with the turn. Which
speakers become roles is the policy of the project: `--roles` and `--other-turns`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sugarbush.errors import InputError
from sugarbush.extend import WHOLE, File, Reading, Row, Span, TextFormat

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}(?:[.,]\d{1,3})?"
_CUE = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}.*")
_LINE = re.compile(rf"\s*[\[(]?{_TIME}[\])]?\s*[-–]?\s*(?P<rest>.*)")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+(?P<speaker>[^>]+)>(?P<rest>.*)", re.DOTALL)
_SPEAKER = re.compile(r"(?P<speaker>[^\W\d_][\w .'-]{0,40}):\s+(?P<rest>.*)", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^>]*>")
_UNKNOWN = "speaker"

Turn = dict[str, str]


class _Transcript(TextFormat):
    """The columns of a transcript: its `name`, which may be the id, and `messages`."""

    def names(self, source: File, reading: Reading) -> list[str]:
        """Return the names, which all files have."""
        return ["name", "messages"]

    def rows(self, source: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the one record. Raises InputError for a file without a time mark."""
        self.require_columns(source, reading.wanted, self.names(source, reading))
        lines = [line.rstrip("\r\n") for line in self.lines(source, reading)]
        if turns := _turns(self.spoken(lines)):
            yield Row(1, {"name": source.name, "messages": turns})
            return
        problem = "is a transcript without a text below a time mark"
        if not reading.broken:
            raise InputError(f"{source}, row 1: {problem} (setting {reading.setting})")
        yield Row(1, {}, problem)

    def spoken(self, lines: list[str]) -> Iterator[str]:
        """Yield what is said between two time marks."""
        raise NotImplementedError


class Subtitles(_Transcript):
    """WebVTT and SRT: blocks with a line `00:01 --> 00:03`, and the text below it."""

    def spoken(self, lines: list[str]) -> Iterator[str]:
        """Yield the text of each cue. Notes, styles and numbers of cues are above the time."""
        for block in "\n".join(lines).split("\n\n"):
            rows = block.strip("\n").split("\n")
            times = [index for index, line in enumerate(rows) if _CUE.fullmatch(line)]
            if times:
                yield " ".join(rows[times[0] + 1 :])


class TimedLines(_Transcript):
    """Lines that begin with a time. Other lines go on with the line above."""

    def spoken(self, lines: list[str]) -> Iterator[str]:
        """Yield what is said at each time. Lines above the first time are a title."""
        said: list[str] = []
        for line in lines:
            if found := _LINE.fullmatch(line):
                said.append(found["rest"])
            elif said:
                said[-1] += f" {line.strip()}"
        yield from said


def _turns(spoken: Iterable[str]) -> list[Turn]:
    turns: list[Turn] = []
    for said in spoken:
        found = _VOICE.match(said.strip()) or _SPEAKER.match(said.strip())
        text = _TAG.sub("", found["rest"] if found else said).strip()
        if not text:
            continue
        speaker = found["speaker"].strip() if found else None
        if turns and speaker in (None, turns[-1]["role"]):
            turns[-1]["content"] += f" {text}"
        else:
            turns.append({"role": speaker or _UNKNOWN, "content": text})
    return turns
