"""Arrays of whole numbers, doubles and flags."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


Flags = NDArray[np.bool_]
