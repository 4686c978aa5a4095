"""The stream adversary: ways to call an attention forward that its streams must bear.

Each is a plain torch program, the same on the virtual GPU and on a card:

    sidestream run scenarios/adversary/play.py --situation two-streams
    python scenarios/adversary/play.py --situation two-streams         # on a card
"""
