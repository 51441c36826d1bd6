"""The bandit as three parties that meet over HTTP: key authority, server, users.

    tenant      one deployment that is served: commits, leases of help; `evaluator` and `reader` are
                its processes, which hold no secret key
    store       what a server must not lose, in a database
    app         the server's HTTP; `limit`, `failure`, `log`, `metric` serve it
    authority   the key authority's HTTP
    client      the users' side

Importing this package loads none of them, and the front of a server never loads OpenFHE.
"""
