"""The engine: noise, votes and tallies of rows, stage by stage."""
