"""The devices a launch can run on, and what they say when it goes wrong."""
