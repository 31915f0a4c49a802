// A star of H hosts with 16 cores each behind rack links and one shared backbone, and W concurrent actors that
// alternate between receiving from a host and computing: what the kernel is timed against.
//
//   simgrid_star WORKLOAD [simgrid options]
//
// WORKLOAD is a text file: H W R, then for each actor R lines "source bytes flops". Prints the simulated end (s), the
// activities run and the CPU seconds of the run alone (set-up is not counted).
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Round {
  int source;
  double bytes;
  double flops;
};

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  std::ifstream input(argv[1]);
  int host_count = 0, actors = 0, rounds = 0;
  input >> host_count >> actors >> rounds;
  std::vector<std::vector<Round>> script(actors, std::vector<Round>(rounds));
  for (auto& rows : script)
    for (auto& row : rows)
      input >> row.source >> row.bytes >> row.flops;
  if (not input) {
    std::fprintf(stderr, "workload %s is shorter than its first line says\n", argv[1]);
    return 2;
  }

  auto* root     = sg4::create_star_zone("root");
  auto* backbone = root->create_link("backbone", 10e9)->set_latency(0)->seal();
  std::vector<sg4::Link*> racks;
  for (int rack = 0; rack < std::max(1, host_count / 16); rack++)
    racks.push_back(root->create_link("rack" + std::to_string(rack), 5e9)->set_latency(0)->seal());
  const auto both = sg4::LinkInRoute::Direction::NONE;
  std::vector<sg4::Host*> hosts;
  for (int index = 0; index < host_count; index++) {
    auto* host = root->create_host("host" + std::to_string(index), 1e9)->set_core_count(16)->seal();
    auto* nic  = root->create_link("nic" + std::to_string(index), 1.25e9)->set_latency(0)->seal();
    root->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                    {{nic, both}, {racks[index % racks.size()], both}, {backbone, both}}, true);
    hosts.push_back(host);
  }
  root->seal();

  long activities = 0;
  for (int actor = 0; actor < actors; actor++)
    sg4::Actor::create("actor" + std::to_string(actor), hosts[actor % host_count], [&, actor] {
      for (const auto& row : script[actor]) {
        sg4::Comm::sendto(hosts[row.source], hosts[actor % host_count], static_cast<uint64_t>(row.bytes));
        sg4::this_actor::execute(row.flops);
        activities += 2;
      }
    });
  const std::clock_t start = std::clock();
  engine.run();
  std::printf("%.9f %ld %.6f\n", sg4::Engine::get_clock(), activities, double(std::clock() - start) / CLOCKS_PER_SEC);
  return 0;
}
