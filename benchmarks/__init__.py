"""How fast it trains, compared with another library, and an actor's memory."""
