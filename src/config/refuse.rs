//! Properties of Kafka that we do not honour, by what it would mean to go on without them.

/// What is to be done about a property that has no row in the table of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Start, and say at debug level that it does nothing.
    Ignore,
    /// Start, and warn: a limit that the owner set does not hold.
    Warn(&'static str),
    /// Do not start: the server would be more open than its owner believes.
    Refuse(&'static str),
    /// Nobody knows it.
    Unknown,
}

const AUTHORIZATION: &str = "authorization is not built yet: every client could do everything";
const PRINCIPALS: &str = "authentication is not built yet: every client would be User:ANONYMOUS";
const ENCRYPTION: &str = "TLS is not built yet: everything would be sent in the clear";

/// Judges a property and its value; an empty value is as good as none.
pub(super) fn treat(property: &str, value: &str) -> Treatment {
    if let Some(rest) = property.strip_prefix("listener.name.") {
        return treat_of_listener(rest, value);
    }
    if value.is_empty() {
        return if super::kafka_keys::is_known(property) { Treatment::Ignore } else { Treatment::Unknown };
    }
    match property {
        "authorizer.class.name" | "super.users" => Treatment::Refuse(AUTHORIZATION),
        "allow.everyone.if.no.acl.found" if !value.eq_ignore_ascii_case("true") => Treatment::Refuse(AUTHORIZATION),
        "create.topic.policy.class.name" => Treatment::Refuse("policies are not built: every topic could be created"),
        "principal.builder.class" => Treatment::Refuse(PRINCIPALS),
        "connections.max.reauth.ms" if value != "0" => Treatment::Refuse(PRINCIPALS),
        "security.inter.broker.protocol" if !value.eq_ignore_ascii_case("PLAINTEXT") => Treatment::Refuse(ENCRYPTION),
        "max.connections.per.ip.overrides" | "max.connection.creation.rate" => {
            Treatment::Warn("this limit is not built and does not hold")
        }
        "client.quota.callback.class" => Treatment::Warn("quotas are not built and do not hold"),
        _ if property.starts_with("config.providers") => {
            Treatment::Refuse("config providers are not built: write the value itself in the file")
        }
        _ if property.starts_with("ssl.") => Treatment::Refuse(ENCRYPTION),
        _ if property.starts_with("sasl.") && !concerns_only_outgoing_connections(property) => {
            Treatment::Refuse(PRINCIPALS)
        }
        _ if super::kafka_keys::is_known(property) => Treatment::Ignore,
        _ => Treatment::Unknown,
    }
}

/// What stands behind `listener.name.`: a listener's name, a dot, and a property that counts for it alone.
fn treat_of_listener(rest: &str, value: &str) -> Treatment {
    let Some((listener, property)) = rest.split_once('.') else {
        return Treatment::Unknown;
    };
    if listener.eq_ignore_ascii_case("controller") {
        return Treatment::Ignore;
    }
    // A SASL property may have its mechanism in front: `listener.name.external.scram-sha-256.sasl.jaas.config`.
    let bare = property.find("sasl.").map_or(property, |at| &property[at..]);
    match treat(bare, value) {
        Treatment::Unknown if property.ends_with("connections.max.reauth.ms") => Treatment::Refuse(PRINCIPALS),
        Treatment::Unknown | Treatment::Ignore => Treatment::Warn("properties of a single listener are not built"),
        refuse_or_warn => refuse_or_warn,
    }
}

/// A broker's own logins at other brokers; nobody connects from here.
fn concerns_only_outgoing_connections(property: &str) -> bool {
    property.starts_with("sasl.mechanism.")
        || property.starts_with("sasl.login.")
        || property.starts_with("sasl.client.")
        || property == "sasl.server.max.receive.size"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(property: &str, value: &str) -> bool {
        matches!(treat(property, value), Treatment::Refuse(_))
    }

    #[test]
    fn what_would_leave_the_server_open_is_refused() {
        for (property, value) in [
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:admin"),
            ("allow.everyone.if.no.acl.found", "false"),
            ("create.topic.policy.class.name", "com.example.Policy"),
            ("principal.builder.class", "com.example.Builder"),
            ("connections.max.reauth.ms", "2000"),
            ("security.inter.broker.protocol", "SASL_SSL"),
            ("ssl.keystore.location", "/etc/kafka/server.pem"),
            ("ssl.client.auth", "required"),
            ("sasl.enabled.mechanisms", "PLAIN"),
            ("sasl.jaas.config", "x required;"),
            ("config.providers", "file"),
            ("listener.name.external.ssl.client.auth", "required"),
            ("listener.name.external.plain.sasl.jaas.config", "x required;"),
            ("listener.name.external.sasl.enabled.mechanisms", "PLAIN"),
            ("listener.name.external.scram-sha-256.sasl.jaas.config", "x required;"),
            ("listener.name.external.plain.connections.max.reauth.ms", "2000"),
            ("listener.name.external.principal.builder.class", "com.example.Builder"),
        ] {
            assert!(refused(property, value), "{property}={value}");
        }
    }

    #[test]
    fn what_opens_nothing_is_not_refused() {
        for (property, value) in [
            ("authorizer.class.name", ""),
            ("ssl.endpoint.identification.algorithm", ""),
            ("allow.everyone.if.no.acl.found", "true"),
            ("connections.max.reauth.ms", "0"),
            ("security.inter.broker.protocol", "PLAINTEXT"),
            ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
            ("process.roles", "broker,controller"),
            ("log.retention.hours", "168"),
            ("listener.name.controller.ssl.client.auth", "required"),
        ] {
            assert_eq!(treat(property, value), Treatment::Ignore, "{property}={value}");
        }
    }

    #[test]
    fn limits_that_do_not_hold_are_warned_of() {
        for (property, value) in [
            ("max.connection.creation.rate", "10"),
            ("max.connections.per.ip.overrides", "10.0.0.1:5"),
            ("listener.name.external.max.connections", "10"),
        ] {
            assert!(matches!(treat(property, value), Treatment::Warn(_)), "{property}={value}");
        }
    }

    #[test]
    fn the_rest_is_unknown() {
        assert_eq!(treat("num.partition", "3"), Treatment::Unknown);
        assert_eq!(treat("zookeeper.connect", ""), Treatment::Unknown);
        assert_eq!(treat("listener.name.external", "3"), Treatment::Unknown);
    }
}
