"""In front of what a service of the tests imports: it has no pandas, as where only it is installed.

pyarrow imports pandas where there is one, which takes a quarter of the time that a process of the
service takes to start.
"""

message = "a service has no pandas"
raise ModuleNotFoundError(message)
