// A shared library that contains smelt and uses it.
#include <smelt/communicator.hpp>

extern "C" bool PLUGIN() { return smelt::Communicator::create(1).operator bool(); }
