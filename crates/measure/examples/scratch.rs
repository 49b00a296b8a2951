#![allow(missing_docs, clippy::unwrap_used)]
use std::sync::Arc; use std::time::*;
use ucuz_cpu::*; use ucuz_cpu::detect::CpuFeatures;
use ucuz_measure::*; use ucuz_measure::bench::kernels::*;
use ucuz_tensor::format::FORMATS;
struct H(Instant);
impl Host for H { fn now(&self)->Duration{self.0.elapsed()} fn begin(&mut self,w:&str,u:u64){eprintln!("{w} {u} at {:.1}", self.0.elapsed().as_secs_f64())} fn advance(&mut self,_:u64){eprint!("{:.1} ", self.0.elapsed().as_secs_f64())} fn end(&mut self){eprintln!()} fn reset_peak_memory(&mut self)->bool{false} fn peak_memory_bytes(&self)->Option<u64>{None} }
fn main(){
 let a: Vec<String> = std::env::args().collect(); // tiers ops formats rows shape contexts cold_mib
 let devices: Vec<Device> = CpuFeatures::detect().tiers().into_iter().filter(|t| a[1].contains(t.name())||a[1]=="all").map(|t| Device{name:t.to_string(), backend:Arc::new(CpuBackend::new(CpuOptions{tier:Some(t),threads:None,pin:false,spin:true}).unwrap())}).collect();
 let o = Options{ operations: if a[2]=="all" {Operation::ALL.into()} else {a[2].split(',').map(|x|x.parse().unwrap()).collect()}, formats: FORMATS.iter().filter(|f| a[3]=="all"||a[3].split(',').any(|n| n==f.name)).map(|f|f.format).collect(), rows: a[4].split(',').map(|x|x.parse().unwrap()).collect(), shape: a[5].parse().unwrap(), contexts: a[6].split(',').map(|x|x.parse().unwrap()).collect(), activations: ucuz_tensor::Activations::Int8Pair, cold_bytes: a[7].parse::<usize>().unwrap()<<20, cache_bytes: detect::last_level_cache_bytes(), timing: Timing{repeat:7,sample_seconds:5e-3,case_seconds:2.0}};
 let p = Provenance{command:String::new(),version:String::new(),created_unix_s:0,created:String::new(),arithmetic_version:1,machine:Machine{processor:String::new(),physical_cores:1,memory_bytes:None,backend:String::new(),device:String::new(),threads:2}};
 let mut h = H(Instant::now());
 let n = devices.len();
 let r = run(&devices, n-1, &o, p, &mut h).unwrap();
 println!("{}", r.document().to_text());
 std::fs::write("/tmp/kernels.html", r.document().to_html().unwrap()).unwrap();
}
