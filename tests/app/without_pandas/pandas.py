"""A module that hides pandas from a service in tests, as in an installation without pandas.

pyarrow imports pandas if it exists, which is a quarter of the start time of a service process.
"""

message = "a service has no pandas"
raise ModuleNotFoundError(message)
