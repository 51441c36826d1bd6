"""What an engine does together with a helper: masked refresh and masked opening."""
