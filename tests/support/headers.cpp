// Owner of the precompiled headers that all test programs share.
