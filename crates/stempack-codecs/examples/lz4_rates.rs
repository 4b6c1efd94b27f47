#![allow(clippy::print_stdout,unsafe_code,missing_docs,reason="tmp")]
use std::time::Instant;
use stempack_codecs::{lz4,bitshuffle};
fn best(mut f: impl FnMut()) -> f64 { let mut b=f64::MAX; for _ in 0..8 { let t=Instant::now(); let mut n=0; while t.elapsed().as_millis()<60 { for _ in 0..16 {f();} n+=16; } b=b.min(t.elapsed().as_secs_f64()/n as f64);} b }
fn main(){
  let mut st=12345u64; let mut rnd=||{st^=st<<13;st^=st>>7;st^=st<<17;(st>>11) as f64/(1u64<<53) as f64};
  for mean in [0.02,0.05,1.0,300.0] {
    let mut px=vec![0u8;8192];
    for p in px.chunks_exact_mut(2){ // poisson
      let v = if mean<30.0 { let l=(-mean as f64).exp(); let mut k=0; let mut q=rnd(); while q>l {k+=1; q*=rnd();} k as u16} else { let g:f64=(0..12).map(|_|rnd()).sum::<f64>()-6.0; (mean+g*(mean as f64).sqrt()) as u16};
      p.copy_from_slice(&v.to_le_bytes()); }
    let mut planes=vec![0u8;8192]; bitshuffle::transpose_scalar(&px,2,&mut planes);
    let mut c=vec![0u8;10000];
    let n=unsafe{lz4_sys::LZ4_compress_default(planes.as_ptr().cast(),c.as_mut_ptr().cast(),8192,10000)} as usize; c.truncate(n);
    let mut o=vec![0u8;8192];
    let t=best(||{lz4::decode_block(&c,&mut o).unwrap();});
    let t2=best(||{unsafe{lz4_sys::LZ4_decompress_safe(c.as_ptr().cast(),o.as_mut_ptr().cast(),n as i32,8192);}});
    let mut mine=Vec::new(); lz4::encode_block(&planes,&mut mine);
    let te=best(||{mine.clear();lz4::encode_block(&planes,&mut mine);});
    let te2=best(||{c.resize(10000,0);unsafe{lz4_sys::LZ4_compress_default(planes.as_ptr().cast(),c.as_mut_ptr().cast(),8192,10000);}});
    let mut ch=Vec::new(); bitshuffle::encode_chunk(&px,2,0,&mut ch).unwrap(); let mut s=Vec::new();
    let tc=best(||{bitshuffle::decode_chunk(&ch,2,&mut o,&mut s).unwrap();});
    println!("mean {mean}: ratio {:.1} ours {:.1}; decode {:.2} GB/s, liblz4 {:.2}; encode {:.2} liblz4 {:.2}; chunk {:.2} GB/s", 8192.0/n as f64, 8192.0/mine.len() as f64, 8.192e-6/t, 8.192e-6/t2, 8.192e-6/te, 8.192e-6/te2, 8.192e-6/tc);
  }
  for dens in [0.0,0.02,0.1,0.3,1.0] {
    let blocks:Vec<Vec<u8>>=(0..256).map(|_|(0..128).map(|_| if rnd()<dens {(1u32<<((rnd()*8.0) as u32)) as u8 * if dens==1.0 {1} else {1} ^ if dens==1.0 {(rnd()*256.0) as u8} else {0}} else {0}).collect()).collect();
    let mut out=Vec::with_capacity(1<<20); let mut total=0;
    let t=best(||{out.clear(); for b in &blocks { lz4::encode_block(b,&mut out);} total=out.len();})/256.0;
    let mut c=vec![0u8;400]; let mut tot2=0;
    let t2=best(||{tot2=0; for b in &blocks { tot2+=unsafe{lz4_sys::LZ4_compress_default(b.as_ptr().cast(),c.as_mut_ptr().cast(),128,400)} as usize;} })/256.0;
    let enc:Vec<Vec<u8>>=blocks.iter().map(|b|{let mut v=Vec::new();lz4::encode_block(b,&mut v);v}).collect();
    let mut o=[0u8;128];
    let td=best(||{for e in &enc {lz4::decode_block(e,&mut o).unwrap();}})/256.0;
    let td2=best(||{for e in &enc {unsafe{lz4_sys::LZ4_decompress_safe(e.as_ptr().cast(),o.as_mut_ptr().cast(),e.len() as i32,128);}}})/256.0;
    println!("128B density {dens}: enc {:.0} ns ({:.1} B), liblz4 {:.0} ns ({:.1} B); dec {:.0} ns vs {:.0} ns", t*1e9, total as f64/256.0, t2*1e9, tot2 as f64/256.0, td*1e9, td2*1e9);
  }
}
