"""Films of episodes."""
