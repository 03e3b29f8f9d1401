"""What to type in place of a function of SciPy's that has no derivative here, for messages.

Formulas are of NumPy's functions and of those of `scipy.special` that have derivatives, in the
names of SciPy's own documentation; tests compare each with what it is for.
"""

from collections.abc import Iterator
from types import FrameType, FunctionType

_SPARSE = (
    "(A @ v) * x in place of (A * x) @ v, and x * v in place of diags(x) @ v, as sparse matrices "
    "are constants; np.bincount(rows, x * v[columns], n) for one of elements x"
)
_STEPS = "steps of Runge and Kutta in a loop, or in ng.scan"
_CONVOLUTION = "ng.signal.convolve(a, b)"

# By the package, and the name of the function or of its class.
_FUNCTIONS = {
    "fft.dct": "2 * np.cos(np.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n) @ x",
    "integrate.trapezoid": "np.trapezoid(y, x)",
    "integrate.simpson": (
        "np.sum(y[:-2:2] + 4 * y[1:-1:2] + y[2::2]) * h / 3, of an odd number of points at "
        "distances h"
    ),
    "integrate.cumulative_trapezoid": "np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2)",
    "integrate.quad": (
        "np.sum(w * f((b + a) / 2 + (b - a) / 2 * t)) * (b - a) / 2, with t, w = "
        "np.polynomial.legendre.leggauss(20)"
    ),
    "integrate.quad_vec": (
        "sum(w * f((b + a) / 2 + (b - a) / 2 * t) for t, w in "
        "zip(*np.polynomial.legendre.leggauss(20))) * (b - a) / 2"
    ),
    "integrate.odeint": _STEPS,
    "integrate.solve_ivp": _STEPS,
    "interpolate.RegularGridInterpolator": (
        "(1 - t) * y[i] + t * y[i + 1] along each axis, with i = np.clip(np.searchsorted(grid, x) "
        "- 1, 0, len(grid) - 2) and t = (x - grid[i]) / (grid[i + 1] - grid[i])"
    ),
    "linalg.circulant": "c[(np.arange(n)[:, None] - np.arange(n)) % n]",
    "linalg.cosm": "ng.linalg.expm(1j * a).real, of a real matrix,",
    "linalg.eigh_tridiagonal": "np.linalg.eigh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1))",
    "linalg.expm_frechet": "ng.jvp(ng.linalg.expm, (a,), (e,))",
    "linalg.fractional_matrix_power": (
        "(v * w**t) @ v.T, of a symmetric matrix a, with w, v = np.linalg.eigh(a)"
    ),
    "linalg.khatri_rao": "(a[:, None] * b).reshape(-1, a.shape[1])",
    "linalg.logm": "(v * np.log(w)) @ v.T, of a symmetric matrix a, with w, v = np.linalg.eigh(a)",
    "linalg.lu": (
        "np.tril(f, -1) + np.eye(n) and np.triu(f), of a square matrix a, with f = "
        "ng.linalg.lu_factor(a)[0]"
    ),
    "linalg.polar": "u @ v, with u, s, v = np.linalg.svd(a, full_matrices=False)",
    "linalg.sinm": "ng.linalg.expm(1j * a).imag, of a real matrix,",
    "linalg.solve_continuous_lyapunov": "ng.linalg.solve_sylvester(a, a.T, q)",
    "linalg.solve_discrete_lyapunov": (
        "np.linalg.solve(np.eye(n * n) - np.kron(a, a), q.ravel()).reshape(n, n)"
    ),
    "ndimage.map_coordinates": (
        "(1 - t) * y[i] + t * y[i + 1] along each axis, with i = np.floor(x).astype(int) and "
        "t = x - i"
    ),
    "signal.fftconvolve": _CONVOLUTION,
    "signal.lfilter": "ng.scan of its recurrence",
    "signal.oaconvolve": _CONVOLUTION,
    "signal.sosfilt": "ng.scan of the recurrence of each section",
    "spatial.Rotation": "ng.linalg.expm(np.cross(np.eye(3), v)), the matrix of a vector v,",
    "spatial.cdist": "np.linalg.norm(x[:, None] - y, axis=-1)",
    "spatial.pdist": (
        "np.linalg.norm(x[i] - x[j], axis=-1), with i, j = np.triu_indices(len(x), 1)"
    ),
}
# Of `scipy.special`.
_UFUNCS = {
    "betaincc": "scipy.special.betainc(b, a, 1 - x)",
    "binom": (
        "np.exp(scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) "
        "- scipy.special.gammaln(n - k + 1))"
    ),
    "cosm1": "-2 * np.sin(x / 2) ** 2",
    "exp10": "10.0**x",
    "poch": "np.exp(scipy.special.gammaln(z + m) - scipy.special.gammaln(z))",
}
# By the names of a distribution and of its method.
_DISTRIBUTIONS = {
    "norm.logpdf": "-(((x - loc) / scale) ** 2) / 2 - np.log(scale * np.sqrt(2 * np.pi))",
    "norm.pdf": "np.exp(-(((x - loc) / scale) ** 2) / 2) / (scale * np.sqrt(2 * np.pi))",
    "norm.cdf": "scipy.special.ndtr((x - loc) / scale)",
    "norm.sf": "scipy.special.ndtr((loc - x) / scale)",
    "norm.logcdf": "scipy.special.log_ndtr((x - loc) / scale)",
    "norm.ppf": "loc + scale * scipy.special.ndtri(q)",
    "expon.logpdf": "-x / scale - np.log(scale)",
    "gamma.logpdf": (
        "scipy.special.xlogy(a - 1, x / scale) - x / scale - scipy.special.gammaln(a) "
        "- np.log(scale)"
    ),
    "beta.logpdf": (
        "scipy.special.xlogy(a - 1, x) + scipy.special.xlog1py(b - 1, -x) "
        "- scipy.special.betaln(a, b)"
    ),
    "t.logpdf": (
        "scipy.special.gammaln((df + 1) / 2) - scipy.special.gammaln(df / 2) "
        "- np.log(df * np.pi) / 2 - (df + 1) / 2 * np.log1p(x**2 / df)"
    ),
    "poisson.logpmf": "scipy.special.xlogy(k, mu) - mu - scipy.special.gammaln(k + 1)",
    "bernoulli.logpmf": "scipy.special.xlogy(k, p) + scipy.special.xlog1py(1 - k, -p)",
    "multivariate_normal.logpdf": (
        "-(x - mean) @ np.linalg.solve(cov, x - mean) / 2 - np.linalg.slogdet(cov)[1] / 2 "
        "- len(x) / 2 * np.log(2 * np.pi)"
    ),
}
# By the beginning of the module's name, for the functions that have no line of their own.
_PACKAGES = {
    "scipy.sparse.linalg.": "ng.callback of a function that solves, with a vjp that solves with "
    "A.T",
    "scipy.sparse.": _SPARSE,
    "scipy.stats.": "its formula, of NumPy's functions and those of scipy.special",
    "scipy.ndimage.": (
        "ng.signal.convolve(np.pad(x, r, mode='symmetric'), weights, mode='valid'), with the "
        "weights of the filter, of radius r"
    ),
    "scipy.interpolate.": (
        "np.interp(x, xp, fp) between points; of s = CubicSpline(xp, fp) "
        "np.sum(s.c[:, k] * (x - s.x[k]) ** np.arange(3, -1, -1)[:, None], axis=0), with "
        "k = np.clip(np.searchsorted(s.x, x) - 1, 0, len(s.x) - 2)"
    ),
}


def of_ufunc(name: str) -> str:
    """What to type in place of a function of `scipy.special`; "" where nothing is known."""
    formula = _UFUNCS.get(name, "")
    return formula and f"{formula} in place of {name}(...)"


def advice(frame: FrameType) -> str:
    """What to type in place of the function of SciPy's that runs in `frame`, or that has called it;
    "" where nothing is known."""
    found, package = "", ""
    place: FrameType | None = frame
    while place is not None:
        module = str(place.f_globals.get("__name__"))
        if not module.startswith("scipy."):
            break
        found = _of_function(place, module) or found
        of_module = (text for start, text in _PACKAGES.items() if module.startswith(start))
        package = next(of_module, package)
        place = place.f_back
    return found or package


def _of_function(frame: FrameType, module: str) -> str:
    name, formula = "", ""
    for package, name in _functions_of(frame, module):
        formula = _FUNCTIONS.get(f"{package}.{name}", "")
        if formula:
            break
    if module.startswith("scipy.stats."):
        name, owner = frame.f_code.co_name, frame.f_locals.get("self")
        distribution = getattr(owner, "name", "")
        if not distribution:  # of vectors
            distribution = type(owner).__name__.removesuffix("_gen").removesuffix("_frozen")
        name = f"{distribution}.{name}"
        formula = _DISTRIBUTIONS.get(name, "")
    return formula and f"{formula} in place of {name}(...)"


def _functions_of(frame: FrameType, module: str) -> Iterator[tuple[str, str]]:
    """Package and name of the function that the frame is of, or of its class, and of functions that
    it wraps."""
    code = frame.f_code
    yield module.split(".")[1], code.co_qualname.partition(".")[0]
    for variable in code.co_freevars:
        wrapped = frame.f_locals.get(variable)
        if isinstance(wrapped, FunctionType) and wrapped.__module__.startswith("scipy."):
            yield wrapped.__module__.split(".")[1], wrapped.__name__
