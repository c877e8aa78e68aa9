//! May a principal do what it asks? Every handler asks before it looks at anything else, in Kafka's order.
//!
//! For now everything is allowed: a configuration that names an authorizer refuses the start, so nobody believes
//! otherwise.

use std::net::IpAddr;

/// Kafka's name of a peer that has not authenticated.
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// In Kafka's form `type:name`.
    pub principal: &'a str,
    /// The peer's address.
    pub host: IpAddr,
}

/// What is to be done; the numbers are Kafka's operation codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Read = 3,
    Write = 4,
    Create = 5,
    Delete = 6,
    Alter = 7,
    Describe = 8,
    ClusterAction = 9,
    DescribeConfigs = 10,
    AlterConfigs = 11,
    IdempotentWrite = 12,
}

/// What it is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A topic by name.
    Topic(&'a str),
    /// A group by id.
    Group(&'a str),
    /// A transactional id.
    TransactionalId(&'a str),
    /// The one cluster.
    Cluster,
}

use Operation::*;

impl Resource<'_> {
    /// The operations that Kafka counts for this kind of resource in "authorized operations".
    pub const fn operations(&self) -> &'static [Operation] {
        match self {
            Resource::Topic(_) => &[Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs],
            Resource::Group(_) => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
            Resource::TransactionalId(_) => &[Write, Describe],
            Resource::Cluster => {
                &[Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite]
            }
        }
    }
}

/// Decides.
pub trait Authorizer {
    /// Whether `subject` may do `operation` to `resource`.
    fn allows(&self, subject: Subject<'_>, operation: Operation, resource: Resource<'_>) -> bool;

    /// The answer to "authorized operations" (KIP-430): a bit per operation code that the subject may perform.
    fn authorized_operations(&self, subject: Subject<'_>, resource: Resource<'_>) -> i32 {
        let allowed = resource.operations().iter().filter(|&&operation| self.allows(subject, operation, resource));
        allowed.fold(0, |bits, &operation| bits | 1 << operation as i32)
    }
}

/// Kafka without `authorizer.class.name`: everything passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn allows(&self, _: Subject<'_>, _: Operation, _: Resource<'_>) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_granted_has_kafkas_bits() {
        let subject = Subject { principal: ANONYMOUS, host: IpAddr::from([127, 0, 0, 1]) };
        assert_eq!(AllowAll.authorized_operations(subject, Resource::Topic("t")), 3576);
        assert_eq!(AllowAll.authorized_operations(subject, Resource::Group("g")), 3400);
        assert_eq!(AllowAll.authorized_operations(subject, Resource::Cluster), 8096);
    }
}
