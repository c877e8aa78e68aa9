use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn listener(name: &str, bind: (&str, u16), told: (&str, u16)) -> Listener {
    Listener {
        name: name.into(),
        bind_host: bind.0.into(),
        bind_port: bind.1,
        advertised_host: told.0.into(),
        advertised_port: told.1,
    }
}

fn plain(name: &str, port: u16) -> Listener {
    listener(name, ("127.0.0.1", port), ("127.0.0.1", port))
}

fn table(listeners: &[Listener], cores: usize, stride: Option<u16>) -> Result<PortTable, PortError> {
    PortTable::of(&Settings { cores, core_port_stride: stride, listeners: listeners.to_vec(), ..Settings::default() })
}

#[test]
fn one_core_has_only_the_listeners_port() {
    let table = table(&[plain("PLAINTEXT", 65_535)], 1, Some(7)).expect("one core needs no other port");
    assert_eq!((table.stride(), table.own_port(0, 0), table.advertised_port(0, 0)), (None, None, 65_535));
}

#[test]
fn one_listener_has_its_cores_behind_it() {
    let table = table(&[listener("PLAINTEXT", ("0.0.0.0", 9092), ("broker", 19_092))], 3, None).expect("they fit");
    assert_eq!(table.stride(), Some(1));
    assert_eq!((0..3).map(|core| table.own_port(0, core)).collect::<Vec<_>>(), [Some(9093), Some(9094), Some(9095)]);
    assert_eq!((0..3).map(|core| table.advertised_port(0, core)).collect::<Vec<_>>(), [19_093, 19_094, 19_095]);
}

#[test]
fn the_stride_steps_over_other_listeners() {
    let listeners = [plain("PLAINTEXT", 9092), plain("EXTERNAL", 9094)];
    // 1 and 2 meet 9094; 3 gives 9095, 9098 and 9097, 9100.
    assert_eq!(table(&listeners, 2, None).map(|table| table.stride()), Ok(Some(3)));
    assert_eq!(table(&listeners, 2, Some(4)).map(|table| table.stride()), Ok(Some(4)));
    let message = table(&listeners, 2, Some(1)).expect_err("9094 is taken").to_string();
    assert_eq!(
        message,
        "rallypoint.core.port.stride 1 gives port 9094 to both core 1 on PLAINTEXT and listener EXTERNAL"
    );
}

#[test]
fn the_stride_steps_over_the_port_of_the_metrics() {
    let with = |host: &str, port: u16, cores: usize, core_port_stride: Option<u16>| {
        let metrics = Some((host.to_owned(), port));
        let listeners = vec![plain("PLAINTEXT", 9092)];
        PortTable::of(&Settings { cores, core_port_stride, listeners, metrics, ..Settings::default() })
            .map(|table| table.stride())
            .map_err(|error| error.to_string())
    };
    assert_eq!(with("127.0.0.1", 9094, 2, None), Ok(Some(3)));
    assert_eq!(with("0.0.0.0", 9094, 2, None), Ok(Some(3)));
    assert_eq!(with("127.0.0.1", 9095, 2, None), Ok(Some(1)));
    for other in ["::1", "127.0.0.2"] {
        assert_eq!(with(other, 9093, 2, None), Ok(Some(1)), "another address");
    }
    assert_eq!(
        with("127.0.0.1", 9094, 2, Some(1)),
        Err("rallypoint.core.port.stride 1 gives port 9094 to both core 1 on PLAINTEXT and the metrics".into())
    );
    for cores in [1, 2] {
        let message = "rallypoint.metrics.listen: port 9092 is that of listener PLAINTEXT";
        assert_eq!(with("0.0.0.0", 9092, cores, None), Err(message.into()));
    }
}

#[test]
fn ports_end_at_65535() {
    assert!(table(&[plain("PLAINTEXT", 65_533)], 2, None).is_ok());
    assert_eq!(table(&[plain("PLAINTEXT", 65_534)], 2, None), Err(PortError::NoStride { cores: 2 }));
    let error = table(&[plain("PLAINTEXT", 65_000)], 2, Some(300)).expect_err("65,600 is no port");
    assert_eq!(error, PortError::TooHigh { stride: 300, listener: "PLAINTEXT".into(), port: 65_600 });
    assert!(table(&[listener("A", ("127.0.0.1", 9092), ("broker", 65_534))], 2, None).is_err());
}

#[test]
fn advertised_ports_of_one_host_are_distinct_too() {
    let listeners =
        [listener("A", ("127.0.0.1", 9092), ("broker", 9092)), listener("B", ("127.0.0.1", 19_092), ("broker", 9093))];
    assert_eq!(table(&listeners, 2, None).map(|table| table.stride()), Ok(Some(2)));
    let listeners =
        [listener("A", ("127.0.0.1", 9092), ("here", 9092)), listener("B", ("127.0.0.1", 19_092), ("there", 9093))];
    assert_eq!(table(&listeners, 2, None).map(|table| table.stride()), Ok(Some(1)));
}

#[test]
fn a_listener_may_advertise_another_ones_address() {
    let listeners =
        [listener("A", ("127.0.0.1", 9092), ("balancer", 80)), listener("B", ("127.0.0.1", 19_092), ("balancer", 80))];
    assert_eq!(table(&listeners, 2, None).map(|table| table.stride()), Ok(Some(1)));
}

#[test]
fn ipv4_and_ipv6_may_share_a_port_but_not_with_everything() {
    let both = [listener("A", ("127.0.0.1", 9092), ("a", 9092)), listener("B", ("::1", 9092), ("b", 9092))];
    assert_eq!(table(&both, 2, None).map(|table| table.stride()), Ok(Some(1)));
    assert!(!may_share("127.0.0.1", "::") && !may_share("127.0.0.1", "localhost") && !may_share("::1", "::2"));
}

#[test]
fn the_table_prints_what_each_core_binds_and_tells() {
    let table = table(&[listener("PLAINTEXT", ("::", 9092), ("broker", 9092))], 2, None).expect("they fit");
    let expected = "\
listener         node  core  binds                    clients are told
PLAINTEXT         any   any  [::]:9092                (bootstrap)
PLAINTEXT           1     0  [::]:9093                broker:9093
PLAINTEXT           2     1  [::]:9094                broker:9094";
    assert_eq!(table.to_string().replace("listener  ", "listener "), expected.replace("listener  ", "listener "));
}

proptest! {
    /// All ports distinct and in range, the same offsets on every listener, and no smaller stride would do.
    #[test]
    fn any_listeners_and_cores(
        ports in prop::collection::btree_map(1u16.., 1u16.., 1..6),
        cores in 2usize..40,
        near in 0u16..3,
    ) {
        let listeners: Vec<Listener> = ports
            .iter()
            .enumerate()
            .map(|(index, (&bind, &told))| {
                // Half of the runs have listeners close together, where strides collide.
                let bind = if near == 0 { 9000 + bind % 50 * 6 + index as u16 } else { bind };
                listener(&format!("L{index}"), ("127.0.0.1", bind), (["x", "y"][index % 2], told))
            })
            .collect();
        let distinct: BTreeSet<u16> = listeners.iter().map(|listener| listener.bind_port).collect();
        let told: BTreeSet<_> = listeners.iter().map(|l| (&l.advertised_host, l.advertised_port)).collect();
        prop_assume!(distinct.len() == listeners.len() && told.len() == listeners.len());
        let Ok(table) = table(&listeners, cores, None) else {
            for stride in 1..2000 {
                prop_assert!(try_stride(&listeners, None, cores, stride).is_err());
            }
            return Ok(());
        };
        let stride = table.stride().expect("more than one core");
        let mut bound = BTreeSet::new();
        let mut told = BTreeSet::new();
        for (index, listener) in listeners.iter().enumerate() {
            prop_assert!(bound.insert(listener.bind_port));
            prop_assert!(told.insert((&listener.advertised_host, listener.advertised_port)));
            for core in 0..cores {
                let own = table.own_port(index, core).expect("more than one core");
                let advertised = table.advertised_port(index, core);
                prop_assert_eq!(usize::from(own), usize::from(listener.bind_port) + usize::from(stride) * (core + 1));
                prop_assert_eq!(own - listener.bind_port, advertised - listener.advertised_port);
                prop_assert!(bound.insert(own));
                prop_assert!(told.insert((&listener.advertised_host, advertised)));
            }
        }
        for smaller in 1..stride {
            prop_assert!(try_stride(&listeners, None, cores, smaller).is_err(), "stride {} would do", smaller);
        }
    }
}
