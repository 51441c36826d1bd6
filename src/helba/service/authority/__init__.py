"""The key authority over HTTP: enrols users, and keeps the server in step with its folder.

    enroller        the authority's folder, opened once
    link        what the authority says to the server
    delivery    brings the server in step with the folder; `courier` does so again and again
    app, run    the HTTP; `metric` counts

Importing this package loads none of them.
"""
