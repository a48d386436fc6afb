//! Tests on a real control plane: etcd, kube-apiserver, controllers, scheduler, KWOK and operators.
//!
//! One control plane and one controller serve all of them; each test has a namespace of its own and
//! waits for what it watches, never for time.
//!
//! What the Go controller gets wrong, line by line of the contract, and the tests that this one does not:
//!
//! | line | tests |
//! |---|---|
//! | 1 names and labels of strangers | `ownership::the_name_of_anothers_object_is_left_to_it`, `ownership::pods_of_strangers_with_our_labels_neither_count_nor_suffer` |
//! | 2 lost replies, failed lists | `proxy::the_controller_may_die_at_any_write`, `proxy::any_call_may_meet_a_fault`, `ownership::an_object_of_ours_that_exists_already_is_taken` |
//! | 3 a paused leader | `ownership::what_appears_after_the_suspension_is_swept_away` |
//! | 4 warm-up and pause | `failing::a_pod_that_is_replaced_late_does_not_reset`, `failing::the_retry_pause_runs_from_the_end_of_the_deletion` |
//! | 5 deletion after failure | `deleting::a_failed_appwrapper_keeps_its_pods_for_the_grace_also_after_a_reset`, `deleting::a_stuck_pod_of_a_failed_appwrapper_is_forced_once` |
//! | 6 success by counting | `kinds::a_job_is_done_when_it_says_so_and_not_when_its_pods_are`, `kinds::a_job_set_may_succeed_while_a_pod_lives_and_that_pod_is_waited_for`, `hostile::no_pods_to_expect_is_no_success` |
//! | 7 a Job's own retries | `failing::a_job_that_retries_its_own_pod_is_not_reset` |
//! | 8 missing components | `ownership::a_component_deleted_behind_our_back_is_created_again` |
//! | 9 removed kinds, poison | `kinds::a_kind_that_is_removed_hangs_nothing`, `hostile::a_template_from_which_nothing_can_be_created_fails`, `hostile::an_object_too_large_for_a_status_says_so` |
//! | 10 annotations | `hostile::a_malformed_annotation_is_named_and_the_default_applies` |
//! | 11 detection and events | `failing::a_failed_pod_is_unhealthy_at_once_and_waits_for_the_grace`, `lifecycle::a_failing_pod_is_retried_until_the_limit` |

#![expect(clippy::panic, reason = "a test ends so")]
#![expect(clippy::needless_pass_by_value, reason = "tests hand in literals")]

mod access;
mod admission;
mod adopted;
mod aw;
mod browser;
mod budgets;
mod certificates;
mod chart;
mod conformance;
mod crds;
mod deeds;
mod deleting;
mod demo;
mod docs;
mod election;
mod enemy;
mod failing;
mod getting_started;
mod guide;
mod harness;
mod hostile;
mod image;
mod inputs;
mod installed;
mod kept;
mod kinds;
mod kueue;
mod layers;
mod lifecycle;
mod load;
mod logs;
mod memory;
mod metrics;
mod multikueue;
mod nodes;
mod objects;
mod on_sim;
mod operators;
mod order;
mod ownership;
mod page;
mod played;
mod policies;
mod progress;
mod progress_server;
mod proxy;
mod real_node;
mod release;
mod replicas;
mod rights;
mod rules;
mod samples;
mod shadow;
mod site;
mod suspending;
mod suspicion;
mod switchover;
mod terminal;
mod tour;
mod web;
mod wire;
mod world;
