"""A trained policy at home: load it, ask it for actions, play, evaluate, export."""
