//! The plain backend passes the checks of every backend, on one thread and on several.

use ucuz_tensor::conformance;
use ucuz_tensor::reference::ReferenceBackend;

mod one_thread {
    use super::*;
    conformance!(ReferenceBackend::new(1));
}

mod three_threads {
    use super::*;
    conformance!(ReferenceBackend::new(3));
}
