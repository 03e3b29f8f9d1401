"""Walks of long graphs, in the kernel language: `walk` finds a history, `survey` says in arrays
what some nodes are, `release` marks them when a backward pass is over.

No module imports this one: `engine_build` reads its text and compiles it. What they do is what
`graph/walk.py` and `graph/survey.py` do node by node, where they are not compiled yet, or Python
is another one. The record that both share with Python, and where the parts
of an object lie, is in `graph/native_walks.py`. They hold the GIL and run no code of Python's, so
nothing changes meanwhile.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numba_grad.compiler.kernel_language.declarations import (
        Pointer,
        call,
        int64,
        pointer,
        stack_words,
        uint8,
    )
    from numba_grad.graph.native_walks import OBJECT_HEAD, WalkStatus, WalkWord

# From here on it is kernel language.

# Of a set of addresses, which has two words for each: the address, and what is said of it. Objects
# lie in blocks of 1 MB; in each the next one goes into one of the next places.
BLOCK = 20
SPREAD = 0x9E3779B1
IS_END = 1
IS_SEEN = 2
LOW_WORD = 0xFFFFFFFF
DIGIT = 11  # bits that are sorted at a time


def walk(address: int) -> int:
    """Depth first from ROOTS to what gradients flow from. FOUND, a list, gets all of it, in the
    order of recording; MET where they do not go on, in the order of finding it; HELD what has a
    tensor that is in use and no value."""
    record = pointer(address, int64)
    depth = begin(record)
    if depth < 0:
        return WalkStatus.FULL
    status = find(record, depth)
    if status == WalkStatus.DONE:
        status = give_in_order(record)
    return status


def begin(record: Pointer) -> int:
    """Put ROOTS on the way, and ENDS into the set; how many are on the way, or less than 0."""
    table = pointer(record[WalkWord.TABLE], int64)
    mask = record[WalkWord.MASK]
    stack = pointer(record[WalkWord.MEMORY], int64)
    ends = items_of(record, record[WalkWord.ENDS])
    roots = items_of(record, record[WalkWord.ROOTS])
    depth = size_of(record[WalkWord.ROOTS])
    record[WalkWord.COUNT] = depth + size_of(record[WalkWord.ENDS])
    if record[WalkWord.COUNT] > record[WalkWord.MOST]:
        return -1
    for number in range(size_of(record[WalkWord.ENDS])):
        place = place_of(table, mask, ends[number])
        table[place] = ends[number]
        table[place + 1] = IS_END
    for number in range(depth):
        stack[number] = roots[number]
        place = place_of(table, mask, roots[number])
        table[place] = roots[number]
        table[place + 1] |= IS_SEEN
    return depth


def find(record: Pointer, depth: int) -> int:
    """Put what is found into memory, with its serials."""
    stack = pointer(record[WalkWord.MEMORY], int64)
    nodes = pointer(record[WalkWord.MEMORY] + 8 * record[WalkWord.MOST], int64)
    serials = pointer(record[WalkWord.MEMORY] + 16 * record[WalkWord.MOST], int64)
    none = record[WalkWord.NONE]
    true = record[WalkWord.TRUE]
    with_pending = record[WalkWord.WITH_PENDING] != 0
    found = 0
    record[WalkWord.FIRST_SERIAL] = 1 << 62
    record[WalkWord.LAST_SERIAL] = 0
    while depth > 0:
        depth -= 1
        own = stack[depth]
        node = pointer(own, int64)
        if not is_known(record, node):
            return WalkStatus.UNKNOWN
        serial = call(record[WalkWord.AS_INTEGER], node[record[WalkWord.SERIAL]])
        if serial < record[WalkWord.FIRST_SERIAL]:
            record[WalkWord.FIRST_SERIAL] = serial
        if serial > record[WalkWord.LAST_SERIAL]:
            record[WalkWord.LAST_SERIAL] = serial
        nodes[found] = own
        serials[found] = serial
        found += 1
        given = items_of(record, node[record[WalkWord.INPUTS]])
        flows = pointer(node[record[WalkWord.OP]], int64)[record[WalkWord.VJP]] != none
        is_end = True
        for number in range(followed_inputs(record, own, node, serial)):
            x = pointer(given[number], int64)
            if not is_known(record, x):
                return WalkStatus.UNKNOWN
            is_followed = with_pending and x[record[WalkWord.VALUE]] == none
            if flows and x[record[WalkWord.REQUIRES_GRAD]] == true:
                is_end = False
                is_followed = True
            if is_followed:
                seen = see(record, given[number])
                if seen < 0:
                    return WalkStatus.FULL
                if seen > 0:
                    stack[depth] = given[number]
                    depth += 1
        if is_end and not is_appended(record, record[WalkWord.MET], own):
            return WalkStatus.FAILED
    record[WalkWord.COUNT] = found
    return WalkStatus.DONE


def followed_inputs(record: Pointer, own: int, node: Pointer, serial: int) -> int:
    """How many inputs of a node the walk goes on to: none where it ends."""
    count = size_of(node[record[WalkWord.INPUTS]])
    if count > 0 and size_of(record[WalkWord.ENDS]) > 0:
        table = pointer(record[WalkWord.TABLE], int64)
        if table[place_of(table, record[WalkWord.MASK], own) + 1] & IS_END != 0:
            return 0
    if serial < record[WalkWord.SINCE]:
        return 0
    return count


def see(record: Pointer, own: int) -> int:
    """1 if a node is seen for the first time, else 0; less than 0 if there is no room for it."""
    table = pointer(record[WalkWord.TABLE], int64)
    place = place_of(table, record[WalkWord.MASK], own)
    if table[place] == 0:
        if record[WalkWord.COUNT] == record[WalkWord.MOST]:
            return -1
        record[WalkWord.COUNT] += 1
        table[place] = own
    elif table[place + 1] & IS_SEEN != 0:
        return 0
    table[place + 1] |= IS_SEEN
    return 1


def give_in_order(record: Pointer) -> int:
    """Append what was found to lists."""
    found = record[WalkWord.COUNT]
    first = record[WalkWord.MEMORY] + 8 * record[WalkWord.MOST]
    # Found from the last to the first, but for some.
    reverse(pointer(first, int64), found)
    reverse(pointer(first + 8 * record[WalkWord.MOST], int64), found)
    nodes = pointer(sorted_by_serial(record, first), int64)
    for number in range(found):
        if not is_appended(record, record[WalkWord.FOUND], nodes[number]):
            return WalkStatus.FAILED
        node = pointer(nodes[number], int64)
        if node[record[WalkWord.VALUE]] == record[WalkWord.NONE]:
            life = life_of(record, node)
            if life < 0:
                return WalkStatus.UNKNOWN
            if life > 0 and not is_appended(record, record[WalkWord.HELD], nodes[number]):
                return WalkStatus.FAILED
    return WalkStatus.DONE


def reverse(words: Pointer, count: int) -> None:
    for number in range(count // 2):
        word = words[number]
        words[number] = words[count - 1 - number]
        words[count - 1 - number] = word


def sorted_by_serial(record: Pointer, address: int) -> int:
    """Where nodes are in order that are at `address`, followed by their serials: digit by digit,
    from one half of the memory to the other. Equal ones stay as they are."""
    most = record[WalkWord.MOST]
    count = record[WalkWord.COUNT]
    first = record[WalkWord.FIRST_SERIAL]
    last = record[WalkWord.LAST_SERIAL]
    source = address
    target = address + 16 * most
    starts = pointer(stack_words(2048), int64)
    digits = (1 << DIGIT) - 1
    shift = 0
    while last - first >> shift > 0:
        nodes = pointer(source, int64)
        serials = pointer(source + 8 * most, int64)
        sorted_nodes = pointer(target, int64)
        sorted_serials = pointer(target + 8 * most, int64)
        for digit in range(digits + 1):
            starts[digit] = 0
        for number in range(count):
            starts[serials[number] - first >> shift & digits] += 1
        start = 0
        for digit in range(digits + 1):
            size = starts[digit]
            starts[digit] = start
            start += size
        for number in range(count):
            digit = serials[number] - first >> shift & digits
            place = starts[digit]
            starts[digit] = place + 1
            sorted_nodes[place] = nodes[number]
            sorted_serials[place] = serials[number]
        address = source
        source = target
        target = address
        shift += DIGIT
    return source


def survey(address: int) -> int:
    """Of each of NODES the kind, how many inputs it has, whether it requires grad and whether it is
    free; of each input its number among them, or below 0 one in OTHERS, a list that gets what else
    is read; of those of FIXED the number, or below 0."""
    record = pointer(address, int64)
    status = describe(record)
    if status == WalkStatus.DONE:
        status = number_inputs(record)
    return status


def describe(record: Pointer) -> int:
    table = pointer(record[WalkWord.TABLE], int64)
    nodes = items_of(record, record[WalkWord.NODES])
    kinds = pointer(record[WalkWord.KINDS], int64)
    arities = pointer(record[WalkWord.ARITIES], int64)
    require_grad = pointer(record[WalkWord.REQUIRE_GRAD], uint8)
    are_free = pointer(record[WalkWord.ARE_FREE], uint8)
    none = record[WalkWord.NONE]
    reads = 0
    for number in range(size_of(record[WalkWord.NODES])):
        node = pointer(nodes[number], int64)
        if not is_known(record, node):
            return WalkStatus.UNKNOWN
        require_grad[number] = 0
        if node[record[WalkWord.REQUIRES_GRAD]] == record[WalkWord.TRUE]:
            require_grad[number] = 1
        are_free[number] = 0
        if (
            node[record[WalkWord.RELEASED]] == record[WalkWord.FALSE]
            and node[record[WalkWord.VALUE]] == none
            and node[record[WalkWord.AUTOGRAD]] == none
        ):
            life = life_of(record, node)
            if life < 0:
                return WalkStatus.UNKNOWN
            if life == 0:
                are_free[number] = 1
        kinds[number] = call(record[WalkWord.AS_INTEGER], node[record[WalkWord.KIND]])
        arities[number] = size_of(node[record[WalkWord.INPUTS]])
        reads += arities[number]
        place = place_of(table, record[WalkWord.MASK], nodes[number])
        table[place] = nodes[number]
        table[place + 1] = number
    record[WalkWord.COUNT] = reads
    if reads > record[WalkWord.MOST_READS]:
        return WalkStatus.FULL
    return WalkStatus.DONE


def number_inputs(record: Pointer) -> int:
    table = pointer(record[WalkWord.TABLE], int64)
    mask = record[WalkWord.MASK]
    nodes = items_of(record, record[WalkWord.NODES])
    arities = pointer(record[WalkWord.ARITIES], int64)
    found = pointer(record[WalkWord.INPUT_NUMBERS], int64)
    room = record[WalkWord.MOST] - size_of(record[WalkWord.NODES])
    others = 0
    reads = 0
    for number in range(size_of(record[WalkWord.NODES])):
        given = items_of(record, pointer(nodes[number], int64)[record[WalkWord.INPUTS]])
        for k in range(arities[number]):
            place = place_of(table, mask, given[k])
            if table[place] == 0:
                if others == room:
                    return WalkStatus.FULL
                if not is_appended(record, record[WalkWord.OTHERS], given[k]):
                    return WalkStatus.FAILED
                others += 1
                table[place] = given[k]
                table[place + 1] = -others
            found[reads] = table[place + 1]
            reads += 1
    fixed = items_of(record, record[WalkWord.FIXED])
    numbers = pointer(record[WalkWord.FIXED_NUMBERS], int64)
    for k in range(size_of(record[WalkWord.FIXED])):
        place = place_of(table, mask, fixed[k])
        numbers[k] = -1
        if table[place] != 0:
            numbers[k] = table[place + 1]
    return WalkStatus.DONE


def release(address: int) -> int:
    """Of NODES mark as released what requires grad and saves something for its derivative; OTHERS,
    a list, gets those that have a value instead."""
    record = pointer(address, int64)
    nodes = items_of(record, record[WalkWord.NODES])
    for number in range(size_of(record[WalkWord.NODES])):
        node = pointer(nodes[number], int64)
        if not is_known(record, node):
            return WalkStatus.UNKNOWN
        if node[record[WalkWord.REQUIRES_GRAD]] == record[WalkWord.TRUE]:
            if node[record[WalkWord.VALUE]] != record[WalkWord.NONE]:
                if not is_appended(record, record[WalkWord.OTHERS], nodes[number]):
                    return WalkStatus.FAILED
            elif node[record[WalkWord.RELEASED]] == record[WalkWord.FALSE]:
                saves = pointer(node[record[WalkWord.OP]], int64)[record[WalkWord.SAVES]]
                if size_of(saves) > 0:
                    call(record[WalkWord.INCREASE_REFERENCE], record[WalkWord.TRUE])
                    node[record[WalkWord.RELEASED]] = record[WalkWord.TRUE]
                    call(record[WalkWord.DECREASE_REFERENCE], record[WalkWord.FALSE])
    return WalkStatus.DONE


def is_known(record: Pointer, node: Pointer) -> bool:
    """Whether a node is what it is taken for."""
    if node[record[WalkWord.TYPE]] != record[WalkWord.NODE_TYPE]:
        return False
    inputs = pointer(node[record[WalkWord.INPUTS]], int64)
    if inputs[record[WalkWord.TYPE]] != record[WalkWord.TUPLE_TYPE]:
        return False
    requires_grad = node[record[WalkWord.REQUIRES_GRAD]]
    released = node[record[WalkWord.RELEASED]]
    if requires_grad != record[WalkWord.TRUE] and requires_grad != record[WalkWord.FALSE]:
        return False
    return released == record[WalkWord.TRUE] or released == record[WalkWord.FALSE]


def place_of(table: Pointer, mask: int, address: int) -> int:
    """Where in the set an address is, or would be."""
    number = (address >> 4) + (address >> BLOCK) * SPREAD & mask
    while table[2 * number] != 0 and table[2 * number] != address:
        number = number + 1 & mask
    return 2 * number


def is_appended(record: Pointer, items: int, own: int) -> bool:
    """Append to a list; False if there is no memory for it."""
    return call(record[WalkWord.APPEND], items, own) & LOW_WORD == 0


def size_of(sequence: int) -> int:
    """Of a tuple, behind its head."""
    return pointer(sequence + OBJECT_HEAD, int64)[0]


def items_of(record: Pointer, items: int) -> Pointer:
    """Of a tuple."""
    return pointer(items + 8 * record[WalkWord.TUPLE_ITEMS], int64)


def life_of(record: Pointer, node: Pointer) -> int:
    """1 if the tensor of a node is in use, 0 if it has none; less than 0 if nobody can say."""
    handle = node[record[WalkWord.HANDLE]]
    if handle == record[WalkWord.NONE]:
        return 0
    reference = pointer(handle, int64)
    if reference[record[WalkWord.TYPE]] != record[WalkWord.REFERENCE_TYPE]:
        return -1
    if reference[record[WalkWord.REFERENT]] == record[WalkWord.NONE]:
        return 0
    return 1
