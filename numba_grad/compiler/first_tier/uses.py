"""Recipes that are used one after the other, written out as the steps of a plan: all at once, in
arrays, since the steps of a loop are the same recipes again and again."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from numba_grad.compiler.first_tier.recipes import CONSTANTS, OWN_WORDS, Address, Recipe
from numba_grad.runtime.plan import PlanBuilder

# Up to as many addresses, one by one is quicker.
_FEW = 200


class Uses:
    """Recipes in the order in which they are used, and where the places of each use are: those of
    all uses, one after the other."""

    def __init__(self, base_of_words: int) -> None:
        self.base_of_words = base_of_words
        self.recipes: list[Recipe] = []
        self.places: list[Address] = []
        # Rows that lead past what was used since: the use, its word, how many uses there were.
        self._skips: list[tuple[int, int, int]] = []

    def skip(self, use: int, word: int) -> None:
        """Have a word of a row say how many steps come between it and those from now on."""
        self._skips.append((use, word, len(self.recipes)))

    def append_to(self, builder: PlanBuilder, constants: bytes | bytearray) -> None:
        """Everything to a plan, with the constants behind the words."""
        if sum([len(recipe.relocations) // 4 for recipe in self.recipes]) <= _FEW:
            self._append_one_by_one(builder, constants)
            return
        steps, words, relocations = self.written_out()
        is_constant = relocations[:, 1] == CONSTANTS
        relocations[is_constant, 1] = self.base_of_words
        relocations[is_constant, 2] += 8 * len(words)
        words = np.concatenate([words, np.frombuffer(constants, np.int64)])
        builder.block(steps, words, relocations)

    def _append_one_by_one(self, builder: PlanBuilder, constants: bytes | bytearray) -> None:
        """The same use by use: arrays of few numbers take longer than these."""
        start = builder.word_count
        behind = start + sum([len(recipe.words) for recipe in self.recipes])
        steps: list[int] = []
        words: list[int] = []
        relocations: list[int] = []
        places, used = self.places, 0
        firsts: list[tuple[int, int]] = []  # of each use: its first word, its first step
        for recipe in self.recipes:
            first = start + len(words)
            firsts.append((len(words), len(steps) // 4))
            words += recipe.words
            rows = iter(recipe.steps)
            for kernel, word, tasks, grain in zip(rows, rows, rows, rows, strict=True):
                steps += (kernel, first + word, tasks, grain)
            rows = iter(recipe.relocations)
            for word, place, base, offset in zip(rows, rows, rows, rows, strict=True):
                if place >= 0:
                    base, beginning = places[used + place]
                    offset += beginning
                if base < 0:
                    offset += 8 * (behind if base == CONSTANTS else first)
                    base = self.base_of_words
                relocations += (first + word, base, offset)
            used += recipe.operands + len(recipe.temporaries)
        firsts.append((len(words), len(steps) // 4))
        for use, word, until in self._skips:
            words[firsts[use][0] + word] = firsts[until][1] - firsts[use + 1][1]
        words += memoryview(constants).cast("q").tolist()
        builder.append(steps, words, relocations)

    def written_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps, words and relocations, as `PlanBuilder.block` takes them."""
        distinct = dict.fromkeys(self.recipes)
        numbers = {recipe: number for number, recipe in enumerate(distinct)}
        used = np.fromiter(map(numbers.__getitem__, self.recipes), np.int64, len(self.recipes))
        steps, step_owners, first_steps = _of_all_uses([x.steps for x in distinct], 4, used)
        words, _, first_words = _of_all_uses([x.words for x in distinct], 1, used)
        rows, owners, _ = _of_all_uses([x.relocations for x in distinct], 4, used)
        steps[:, 1] += first_words[step_owners]
        words = words[:, 0]
        for use, word, until in self._skips:
            words[first_words[use] + word] = first_steps[until] - first_steps[use + 1]
        first_words = first_words[owners]
        positions, places, bases, offsets = rows.T
        positions += first_words
        # Places of the use.
        is_place = places >= 0
        counts = np.array([x.operands + len(x.temporaries) for x in distinct], np.int64)[used]
        firsts = (np.cumsum(counts) - counts)[owners[is_place]]
        found = np.fromiter(chain.from_iterable(self.places), np.int64, 2 * len(self.places))
        of_places = found.reshape(-1, 2)[firsts + places[is_place]]
        bases[is_place] = of_places[:, 0]
        offsets[is_place] += of_places[:, 1]
        is_own = bases == OWN_WORDS
        bases[is_own] = self.base_of_words
        offsets[is_own] += 8 * first_words[is_own]
        return steps, words, rows[:, [0, 2, 3]]


def _of_all_uses(
    parts: Sequence[Sequence[int]], columns: int, used: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of some recipes, of all their uses: these rows, for each the number of its use, and
    for each use, and the end, the number of its first row."""
    table = np.fromiter(chain.from_iterable(parts), np.int64).reshape(-1, columns)
    counts = np.array([len(part) // columns for part in parts], np.int64)
    own = counts[used]
    firsts = np.zeros(len(used) + 1, np.int64)
    np.cumsum(own, out=firsts[1:])
    owners = np.repeat(np.arange(len(used)), own)
    ahead = (np.cumsum(counts) - counts)[used] - firsts[:-1]  # of where they are to be written
    return table[np.arange(len(owners)) + ahead[owners]], owners, firsts
