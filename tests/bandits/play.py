"""A small simulator for tests of policies: contexts in the unit ball, linear rewards."""

import numpy as np

from helba.bandits import Settings
from helba.lab.algorithm import make_policy


def linear_settings(*, dim=3, arms=4, horizon=200, **options):
    values = {"length": 1.0, "parameter_bound": 1.0, "noise": 0.3, "reward_max": 3.0} | options
    return Settings(dim=dim, arms=arms, horizon=horizon, **values)


def rounds(settings, *, seed):
    """Yield (contexts, means, rewards) for `settings.horizon` rounds."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=settings.dim)
    theta *= settings.parameter_bound / np.linalg.norm(theta)
    for _ in range(settings.horizon):
        x = rng.normal(size=(settings.arms, settings.dim))
        x *= settings.length * rng.random((settings.arms, 1)) / np.linalg.norm(x, axis=1)[:, None]
        means = x @ theta
        noise = settings.noise * rng.standard_normal(settings.arms)
        yield x, means, np.clip(means + noise, -settings.reward_max, settings.reward_max)


def play(name, settings, *, seed=0, watch=None):
    """Play the horizon; return the policy, its regret and its history of (context, reward)."""
    policy, regret, history = make_policy(name, settings=settings, seed=seed), 0.0, []
    for contexts, means, rewards in rounds(settings, seed=seed):
        arm = policy.select(contexts)
        if watch is not None:
            watch(policy, contexts, arm)
        policy.update(contexts[arm], float(rewards[arm]))
        history.append((contexts[arm], float(rewards[arm])))
        regret += float(means.max() - means[arm])
    return policy, regret, history
