//! CreateTopics requests of every version.
#![no_main]

rallypoint_fuzz::request!(create_topics::CreateTopicsRequest, CreateTopics);
