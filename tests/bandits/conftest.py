import numpy as np
import pytest

from helba.bandits import Settings


@pytest.fixture
def toy_settings():
    return Settings(
        dim=2,
        arms=2,
        horizon=130,
        length=5.5,
        parameter_bound=1.0,
        noise=0.5,
        reward_max=np.sqrt(2) + 3,
    )
