/*
 * Splitmix64 (Steele, Lea, Flood 2014) for bits: it passes the usual test batteries and its state
 * is one word, so a run can be repeated from its seed. Gamma numbers by Marsaglia and Tsang (2000):
 * squeeze a transformed normal; shapes below 1 come from shape + 1 and a power of a uniform number.
 */
#include "scripts/load/load_random.h"

#include <math.h>

void load_random_init(struct load_random *random, uint64_t seed)
{
    random->state = seed;
}

uint64_t load_random_next(struct load_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t load_random_below(struct load_random *random, uint64_t below)
{
    return (uint64_t)(((unsigned __int128)load_random_next(random) * below) >> 64);
}

double load_random_unit(struct load_random *random)
{
    return (double)((load_random_next(random) >> 11) + 1) * 0x1p-53;
}

static double normal(struct load_random *random)
{
    double radius = sqrt(-2 * log(load_random_unit(random)));
    return radius * cos(2 * acos(-1.0) * load_random_unit(random));
}

double load_random_gamma(struct load_random *random, double shape)
{
    if (shape < 1)
        return load_random_gamma(random, shape + 1) * pow(load_random_unit(random), 1 / shape);
    double d = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(random);
        double v = pow(1 + c * x, 3);
        if (v > 0 && log(load_random_unit(random)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}
