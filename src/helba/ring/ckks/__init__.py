"""The ring on OpenFHE. Importing it loads OpenFHE; `helba.ring` does so when a key asks for it."""
