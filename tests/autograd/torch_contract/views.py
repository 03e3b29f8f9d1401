"""Views and what is assigned through them."""

import contextlib

from tests.autograd.torch_contract.scenarios import raises, scenario, variable


def matrix(lib, requires_grad=True):
    return lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=requires_grad)


def weights(lib):
    return lib.tensor([[1.0, -2.0, 3.0], [0.5, 7.0, 11.0]])


@scenario
def what_is_written_to_a_view_gets_the_gradient(lib):
    x, v = matrix(lib), lib.tensor([2.0, 3.0, 4.0], requires_grad=True)
    y = x * 2
    row = y[0]
    row *= v
    (y * weights(lib)).sum().backward()
    return y, row, x.grad, v.grad


@scenario
def other_views_see_a_write_and_its_gradient(lib):
    x, v = matrix(lib), lib.tensor([2.0, 3.0, 4.0], requires_grad=True)
    y = x * 2
    row, column = y[1], y[:, 2]
    row *= v
    (column * column).sum().backward()
    return row, column, x.grad, v.grad


@scenario
def views_see_what_is_written_to_their_base(lib):
    x, v = matrix(lib), lib.tensor(5.0, requires_grad=True)
    y = x * x
    row = y[0]
    y[0, 1] = v
    (row * weights(lib)[0]).sum().backward()
    return row, x.grad, v.grad, row.requires_grad


@scenario
def views_of_views_write_through(lib):
    x = matrix(lib)
    y = x * 3
    y[1:][0][1:] += 10
    y.T[0] = 1
    y.reshape(6)[5] *= 2
    (y * y).sum().backward()
    return y, x.grad


@scenario
def a_history_written_into_a_constant_tensor(lib):
    x, y = matrix(lib), matrix(lib, requires_grad=False)
    row, column = y[0], y[:, 1]
    row[:] = x[1]
    (y * weights(lib)).sum().backward(retain_graph=True)
    column.sum().backward()
    return y, column, y.requires_grad, column.requires_grad, row.requires_grad, x.grad


@raises("RuntimeError")
def views_of_leaves_refuse_assignment(lib):
    row = matrix(lib)[0]
    row += 1


@scenario
def a_refused_write_changes_nothing(lib):
    x = matrix(lib)
    row, column = x[0], x[:, 0]
    with contextlib.suppress(RuntimeError):
        row += 1
    return x, row, column


@scenario
def views_of_leaves_are_written_under_no_grad(lib):
    x = matrix(lib)
    row = x[0]
    with lib.no_grad():
        x += 1
        row *= 10
    (row * row).sum().backward()
    return x, row, row.requires_grad, x.is_leaf, x.requires_grad, x.grad


@scenario
def history_stays_under_no_grad(lib):
    x = variable(lib)
    y = x * 2
    with lib.no_grad():
        y += 1
        y *= 3
    (y * y).sum().backward()
    return y, y.requires_grad, x.grad


@scenario
def history_stays_under_no_grad_by_a_view(lib):
    x = matrix(lib)
    y = x * 2
    row = y[0]
    with lib.no_grad():
        row += 1
    (y * weights(lib)).sum().backward()
    return y, row.requires_grad, x.grad


@scenario
def a_detached_tensor_is_a_view(lib):
    x = matrix(lib)
    y = x * 2
    d = y.detach()
    d[0] = 7
    y[1, 1] = 5
    z = y.sum()
    z.backward()
    return y, d, d.requires_grad, y.requires_grad, x.grad


@scenario
def a_detached_leaf_is_a_view(lib):
    x = matrix(lib)
    d = x.detach()
    d -= 1
    x.sum().backward()
    return x, d, d.requires_grad, x.requires_grad, x.is_leaf, x.grad


@raises("RuntimeError")
def views_cannot_be_detached_in_place(lib):
    y = matrix(lib) * 2
    y[0].detach_()


@scenario
def what_is_detached_can_be_detached_in_place(lib):
    x = matrix(lib)
    y = x.detach()
    y.detach_()
    (x * y).sum().backward()
    return y.requires_grad, y.is_leaf, x.grad


@scenario
def gradients_with_respect_to_views(lib):
    x = matrix(lib)
    y = x * 2
    row = y[0]
    row += 1
    return lib.autograd.grad((y * weights(lib)).sum(), [y, x], allow_unused=True)


@scenario
def second_derivatives_through_views(lib):
    x = matrix(lib)
    y = x * x
    row = y[0]
    row *= x[1]
    (g,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = lib.autograd.grad((g * weights(lib)).sum(), x)
    return g, h


@scenario
def a_row_at_a_time(lib):
    x = matrix(lib)
    y = x * 1
    total = 0.0
    for k in range(2):
        row = y[k]
        row *= k + 2
        total = total + row.sum() * (k + 1)
    total.backward()
    return y, x.grad


@scenario
def leaves_made_of_views(lib):
    x = matrix(lib, requires_grad=False)
    row = x[0]
    row.requires_grad_()
    with lib.no_grad():
        x *= 2
    (row * row).sum().backward()
    return x, row, row.is_leaf, row.grad


VIEWS = {
    "slice": lambda y: y[:, 1:],
    "transpose": lambda y: y.T[1:],
    "view of a view": lambda y: y[1:].reshape(3)[:2],
    "all": lambda y: y[:],
}


def written_through(lib, name):
    """An array with history, the view of it that was written to, another one, and their sum."""
    x = matrix(lib)
    y = x * 2
    view, other = VIEWS[name](y), y[0, :1]
    before = (y * 11).sum() + (other * 13).sum()
    view *= 3
    view[0] += (x * x).sum()
    total = (y * weights(lib)).sum() + (view * view).sum() + (other * 7).sum() + before
    return x, y, view, other, total


@scenario
def an_array_has_the_gradient_that_comes_through_its_views(lib):
    results = []
    for name in VIEWS:
        x, y, view, other, total = written_through(lib, name)
        found = lib.autograd.grad(total, [y, view, other, x])
        x, y, view, other, total = written_through(lib, name)
        edge = lib.autograd.graph.get_gradient_edge(y)
        results += [*found, *lib.autograd.grad(total, [edge])]
    return results


@scenario
def gradients_of_views_and_arrays_that_nobody_reads(lib):
    results = []
    for name in VIEWS:
        for read in ("array", "view", "other"):
            _, y, view, other, _ = written_through(lib, name)
            total = ({"array": y, "view": view, "other": other}[read] * 5).sum()
            results += lib.autograd.grad(total, [y, view, other], allow_unused=True)
    return results


@scenario
def an_array_as_an_input_of_backward_after_a_write_to_its_view(lib):
    results = []
    for name in VIEWS:
        x, y, _, _, total = written_through(lib, name)
        total.backward(inputs=[y])
        results += [x.grad, y.grad]
    return results


@scenario
def hooks_of_an_array_whose_view_was_written_to(lib):
    x = matrix(lib)
    y = x * 2
    view, other, seen = y[:, 1:], y[0, :1], []
    y.register_hook(lambda g: seen.append(g))  # of the old value
    view *= 3
    view += 1
    y.register_hook(lambda g: seen.append(g))  # of a view that was written to, torch 2.13 crashes
    ((view * view).sum() + (other * 7).sum() + (y * weights(lib)).sum()).backward()
    return x.grad, *seen


@scenario
def hooks_of_views_that_are_written_to_see_nothing_of_it(lib):
    results = []
    for is_kept in (True, False):
        x = matrix(lib)
        y, seen = x * 2, []
        rows = y[:2]
        row = rows[1]
        kept = y if is_kept else (x * 3)
        del y
        rows.register_hook(lambda g: g * 100)
        row.register_hook(lambda g, seen=seen: seen.append(g))
        before = (row * 7).sum() + (rows * 11).sum()
        row *= 3
        row[1] = 5.0
        rows += 1
        (before + (rows * rows).sum() + (row * 2).sum() + kept.sum()).backward()
        results += [x.grad, *seen]
    return results


@scenario
def views_that_are_apart_are_read_after_a_write_to_the_array(lib):
    x = matrix(lib)
    y = x * 2
    row, other = y[0], y[1, :2]
    y[0, 1:] = 4.0
    total = (row * row).sum() + (other * other).sum()
    return lib.autograd.grad(total, [y, row, other, x])


@scenario
def a_view_whose_array_is_gone_has_what_comes_through_itself(lib):
    x = matrix(lib)
    y = x * 2
    row, column = y[0], y[:, 2]
    del y
    row *= 3
    total = (row * 5).sum() + (column * column).sum()
    return lib.autograd.grad(total, [row, column, x])


@scenario
def what_is_written_outside_of_recording_leaves_a_tensor_what_it_is_to_gradients(lib):
    results = []
    for writes in (1, 2):
        for through in (lambda y: y, lambda y: y[:, 1:], lambda y: y.T[0]):
            x = matrix(lib)
            y, seen = x * 2, []
            y.retain_grad()
            y.register_hook(lambda g, seen=seen: seen.append(g))
            before, edge = (y * 11).sum(), lib.autograd.graph.get_gradient_edge(y)
            with lib.no_grad():
                for _ in range(writes):
                    view = through(y)
                    view *= 3
            y.register_hook(lambda g, seen=seen: seen.append(g * 2))
            total = (y * y).sum() + before
            results += lib.autograd.grad(total, [y, x], retain_graph=True)
            results += lib.autograd.grad(total, [edge], retain_graph=True)
            total.backward(inputs=[y], retain_graph=True)
            total.backward()
            results += [y, y.grad, x.grad, y.retains_grad, *seen]
    return results


@scenario
def a_root_that_was_written_outside_of_recording(lib):
    x = matrix(lib)
    y, seen = x * 2, []
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g) or g * 2)
    with lib.no_grad():
        y *= 3
    y.backward(weights(lib), retain_graph=True)
    y.backward(weights(lib))
    y *= 2
    y.detach_()
    return y, y.is_leaf, x.grad, *seen


@scenario
def views_of_an_array_that_is_gone_keep_their_history_outside_of_recording(lib):
    x = matrix(lib)
    y = x * 2
    row, column = y[0], y[:, 2]
    del y
    with lib.no_grad():
        row *= 3
    total = (row * row).sum() + (column * column).sum()
    return row, column, *lib.autograd.grad(total, [row, column, x])


@scenario
def what_is_written_to_a_detached_view_is_its_history(lib):
    x = matrix(lib)
    y = x * 1.5
    d = y.detach()
    other = y[0]
    d[:] = x
    row = d[0]
    row += x[1]
    y[1] = x[0] * 2
    (d * weights(lib)).sum().backward(retain_graph=True)
    (row * row).sum().backward(retain_graph=True)
    (other * y).sum().backward()
    return d, y, row, other, x.grad, d.requires_grad, row.requires_grad


@scenario
def a_view_of_a_detached_view_that_is_gone_is_written_to(lib):
    x = matrix(lib)
    y = x * 1.5
    row = y.detach()[0]
    row *= x[1]
    (row * row).sum().backward(retain_graph=True)
    (y * y).sum().backward()
    return y, row, x.grad


@scenario
def what_is_detached_twice_is_written_to(lib):
    x = matrix(lib)
    y = x * 1.5
    d = y.detach()
    e = d.detach()
    e[0] = x[1]
    d[1] *= 2
    (e * e).sum().backward()
    return e, d, y, x.grad, d.requires_grad


@scenario
def a_detached_view_keeps_what_was_written_to_it(lib):
    x = matrix(lib)
    y = x * 1.5
    d = y.detach()
    d[0] = x[1]
    y[1] = 7.0
    (d * weights(lib)).sum().backward()
    return d, y, x.grad, d.requires_grad


@scenario
def diagonals_of_an_array_that_is_gone_see_what_is_written(lib):
    x = matrix(lib)
    y = x * 1.5
    rows, diagonal = y[:1], y.diagonal()
    below = rows.diagonal()
    del y
    rows[0] = x[1]
    (diagonal * diagonal).sum().backward(retain_graph=True)
    (below * below).sum().backward()
    return rows, diagonal, below, x.grad


@scenario
def a_view_with_hooks_whose_history_was_freed_is_written_to(lib):
    x, seen = matrix(lib), []
    y = x * 1.5
    row = y[0]
    row.sum().backward()
    row.register_hook(seen.append)
    part = row[1:]
    part[1] = row.sum()
    return row, part, y, x.grad, len(seen)


@scenario
def a_detached_part_is_written_to(lib):
    x = matrix(lib)
    y = x * 1.5
    row, column = y[0].detach(), y.T[1]
    row *= 2
    (column * column).sum().backward(retain_graph=True)
    (y * weights(lib)).sum().backward()
    return row, column, y, x.grad, row.requires_grad


@scenario
def a_detached_part_gets_history(lib):
    x = matrix(lib)
    y = x * 1.5
    row = y[0].detach()
    row *= x[1]
    (y * weights(lib)).sum().backward(retain_graph=True)
    (row * row).sum().backward()
    return row, y, x.grad


@scenario
def a_detached_part_of_an_array_that_is_gone_is_written_to(lib):
    x = matrix(lib)
    row = (x * 1.5)[0]
    part, other = row[1:].detach(), row[1:]
    part *= 2
    (row.sum() + other.sum()).backward()
    return row, part, other, x.grad


@scenario
def a_detached_part_of_a_leaf_is_written_to(lib):
    x = matrix(lib)
    row = x[0].detach()
    row *= 2
    (x * x).sum().backward()
    return x, row, x.grad, x.is_leaf


@scenario
def what_shows_an_array_whose_history_was_freed_is_written_to(lib):
    x = matrix(lib)
    y = x * 1.5
    d = y.detach()
    d += 0.5
    (y * weights(lib)).sum().backward()
    d *= 2
    return d, y, x.grad, y.requires_grad
