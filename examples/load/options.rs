//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};

/// Puts load on a controller of AppWrappers, on the repository's test control plane, and measures it.
#[derive(Clone, Debug, Parser)]
#[command(name = "load")]
pub struct Options {
    /// What to run
    #[arg(long, value_enum, default_value_t = Choice::All)]
    pub scenario: Choice,
    /// Numbers of AppWrappers (gang: of pods), separated by commas; one run each
    #[arg(long, value_delimiter = ',', default_value = "30,100", value_parser = size)]
    pub sizes: Vec<usize>,
    /// Run only these, separated by commas [default: controller, other if --other is set, and floor]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Implementation>,
    /// The program of this controller [default: the one beside the example, as `cargo build` makes it]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Another controller of the same API, which is configured as the Go controller is
    #[arg(long, value_name = "FILE")]
    pub other: Option<PathBuf>,
    /// Directory of the results, the plots and the controllers' logs
    #[arg(long, value_name = "DIR", default_value = "target/load")]
    pub out: PathBuf,
    /// Run this controller with its webhooks
    #[arg(long)]
    pub webhook: bool,
    /// How long the scenario `scale` measures at rest, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub rest: u32,
}

/// What `--scenario` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    One(Scenario),
    /// All of them but kueue.
    All,
}

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// AppWrappers of one pod that runs for 1 s, created as fast as possible
    Churn,
    /// Running AppWrappers of one pod, all of which fail at once
    Storm,
    /// One AppWrapper with a Job of as many pods, one of which fails
    Gang,
    /// Running AppWrappers: memory, a restart of the controller, and rest
    Scale,
    /// A quiet namespace beside one whose AppWrappers fail again and again
    Fair,
    /// AppWrappers of one pod that runs for 1 s, through a `ClusterQueue` with room for 50
    Kueue,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Implementation {
    /// This controller
    Controller,
    /// The program of --other
    Other,
    /// The same pods with no controller at all
    Floor,
}

/// What a cost is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// An AppWrapper, or its pod.
    AppWrapper,
    /// A pod of a Job.
    Pod,
    /// A pod that fails, and its replacement.
    Failure,
}

impl Unit {
    /// As the names of measures end.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::AppWrapper => "aw",
            Self::Pod => "pod",
            Self::Failure => "failure",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AppWrapper => "AppWrapper",
            Self::Pod => "pod",
            Self::Failure => "failure",
        })
    }
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        use Scenario::{Churn, Fair, Gang, Kueue, Scale, Storm};
        const CHOICES: [Choice; 7] = [
            Choice::One(Churn),
            Choice::One(Storm),
            Choice::One(Gang),
            Choice::One(Scale),
            Choice::One(Fair),
            Choice::One(Kueue),
            Choice::All,
        ];
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::One(scenario) => scenario.to_possible_value(),
            Self::All => Some(PossibleValue::new("all").help("All of them but kueue")),
        }
    }
}

impl Choice {
    /// The scenarios to run, in order.
    pub fn scenarios(self) -> Vec<Scenario> {
        match self {
            Self::One(scenario) => vec![scenario],
            Self::All => {
                let all = Scenario::value_variants().iter().copied();
                all.filter(|scenario| *scenario != Scenario::Kueue).collect()
            }
        }
    }
}

impl Options {
    /// What each scenario is run with, in the order of tables and legends.
    pub fn implementations(&self) -> Vec<Implementation> {
        let wanted = |each: &Implementation| match self.only.as_slice() {
            [] => *each != Implementation::Other || self.other.is_some(),
            only => only.contains(each),
        };
        Implementation::value_variants().iter().copied().filter(wanted).collect()
    }
}

impl Scenario {
    /// What a size counts.
    pub const fn counted(self) -> &'static str {
        match self {
            Self::Gang => "pods",
            Self::Churn | Self::Storm | Self::Scale | Self::Fair | Self::Kueue => "AppWrappers",
        }
    }

    /// What costs are divided by: where failures go on and on, a controller that recovers sooner has more
    /// of them.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Gang => Unit::Pod,
            Self::Fair => Unit::Failure,
            Self::Churn | Self::Storm | Self::Scale | Self::Kueue => Unit::AppWrapper,
        }
    }

    /// The transition whose latency is drawn.
    pub const fn transition(self) -> &'static str {
        match self {
            Self::Churn | Self::Kueue => "from creation to Succeeded",
            Self::Storm => "from a pod's failure to its replacement Running",
            Self::Gang => "from a pod's failure in the Job to each new pod Running",
            Self::Scale => "from creation to the pod ready",
            Self::Fair => "from creation to Running in the quiet namespace",
        }
    }

    /// Whether there is something to run without a controller: Kueue admits no bare pods here.
    pub fn is_run_for(self, implementation: Implementation) -> bool {
        self != Self::Kueue || implementation != Implementation::Floor
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Churn => "churn",
            Self::Storm => "storm",
            Self::Gang => "gang",
            Self::Scale => "scale",
            Self::Fair => "fair",
            Self::Kueue => "kueue",
        })
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => "controller",
            Self::Other => "other",
            Self::Floor => "floor",
        })
    }
}

fn size(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(size) if (1..=100_000).contains(&size) => Ok(size),
        _ => Err("must be numbers from 1 to 100000, as in 100,300,1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["load"], arguments].concat())
    }

    #[test]
    fn the_default_is_everything_at_small_sizes() {
        let options = parsed(&[]).unwrap();
        assert_eq!(options.scenario.scenarios().len(), 5);
        assert_eq!(options.sizes, [30, 100]);
        use Implementation::{Controller, Floor, Other};
        assert_eq!(options.implementations(), [Controller, Floor]);
        let options = parsed(&["--other", "manager"]).unwrap();
        assert_eq!(options.implementations(), [Controller, Other, Floor]);
        let options = parsed(&["--only", "floor,other"]).unwrap();
        assert_eq!(options.implementations(), [Other, Floor]);
    }

    #[test]
    fn sizes_are_numbers_that_can_be_run() {
        assert_eq!(parsed(&["--sizes", "100,300, 1000"]).unwrap().sizes, [100, 300, 1000]);
        for wrong in ["", "0", "10,", "many", "-1", "100001"] {
            assert!(parsed(&[&format!("--sizes={wrong}")]).is_err(), "{wrong}");
        }
        assert!(parsed(&["--scenario", "calm"]).is_err());
    }
}
