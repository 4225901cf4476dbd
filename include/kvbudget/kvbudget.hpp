// kvbudget: how much KV cache a model needs, how much a device holds, and which request may start now.
//
// The door. It needs the standard library only, and neither exceptions nor RTTI. Readers of foreign formats (kvbudget/read/)
// and writers (kvbudget/write/) are included by name.
#pragma once

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/size/capacity.hpp>
