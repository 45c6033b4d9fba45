"""`localspec serve`: one model pair behind the OpenAI protocol, for editors and scripts.

fields.py reads requests, replies.py words answers, desk.py has the engine and its queue, metrics.py counts, guard.py
says who may ask, app.py joins them, server.py runs it all. Nothing here knows a model or a drafter.
"""
