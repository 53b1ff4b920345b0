"""How fast it trains, beside another library and alone, and what an actor weighs."""
