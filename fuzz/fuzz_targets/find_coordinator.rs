//! FindCoordinator requests of every version.
#![no_main]

rallypoint_fuzz::request!(find_coordinator::FindCoordinatorRequest, FindCoordinator);
