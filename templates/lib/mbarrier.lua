-- mbarrier: barriers in shared memory that count arrivals and bytes (PTX ISA: mbarrier). Addresses are 32-bit registers of shared
-- memory plus an offset that is an integer or a register.
need { ptx = "8.0", target = "sm_90" }
local mbarrier = {}

-- arrivals: of a phase.
function mbarrier.init(base, offset, arrivals)
|   mbarrier.init.shared::cta.b64 [$(base)+$(offset)], $(arrivals);
end

-- After the inits, before anybody else may use the barriers: one thread.
function mbarrier.publish()
|   fence.mbarrier_init.release.cluster;
end

function mbarrier.arrive(base, offset)
|   mbarrier.arrive.shared::cta.b64 _, [$(base)+$(offset)];
end

-- One arrival that also tells how many bytes are to come in this phase.
function mbarrier.expect(base, offset, bytes)
|   mbarrier.arrive.expect_tx.shared::cta.b64 _, [$(base)+$(offset)], $(bytes);
end

-- at: a shared::cluster address (mapa). No release at cluster scope: the phase's waiter reads nothing that this thread wrote.
function mbarrier.arrive_remote(at)
|   mbarrier.arrive.shared::cluster.b64 _, [$(at)];
end

-- Waits until the phase of this parity is complete. across: arrivals come from other CTAs of the cluster.
function mbarrier.wait(base, offset, parity, across)
  local again, done = label "again", label "over"
  scope(function()
    local over = pred "over"
| $(again):
|   mbarrier.try_wait.parity$(across and ".acquire.cluster" or "").shared::cta.b64 $(over), [$(base)+$(offset)], $(parity), 1000000;
| @!$(over) bra    $(again);
  end)
end

return mbarrier
